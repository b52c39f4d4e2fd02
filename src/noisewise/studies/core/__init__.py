"""What every study is made of: its description, lines and claims, tables, figures, the runner."""
