"""`python -m noisewise`, and what the command `noisewise` runs."""

from noisewise._interrupts import EXIT_CODE, say_stopped, watch
from noisewise._programs import keep_programs_of_commands


def main() -> None:
    """Entry point: interrupts are watched for before anything else is loaded."""
    try:
        watch()
        keep_programs_of_commands()
        from noisewise.cli import app

        app()
    except KeyboardInterrupt:
        say_stopped()
        raise SystemExit(EXIT_CODE) from None
    except SystemExit as end:
        if end.code == EXIT_CODE:  # typer leaves without a word when interrupted while it parses
            say_stopped()
        raise


if __name__ == "__main__":
    main()
