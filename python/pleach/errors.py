"""What Pleach raises. The message is one line that names the value and where it came from."""


class Error(Exception):
    """Any error of Pleach."""


class InvalidArgumentError(Error, ValueError):
    """What was given cannot be meant: a value, a file's content, or what ranks ask for."""


class InfeasibleError(Error):
    """The request is well-formed, but nothing fulfils it on this topology."""


class VerificationError(InvalidArgumentError):
    """A schedule is not correct; the message is its first violation."""


class FileError(Error, OSError):
    """The operating system refuses: a file, a socket, memory that is shared."""


class DeadlineError(Error, TimeoutError):
    """A rank did not answer in time; the message names it."""


class PeerLostError(Error, ConnectionError):
    """A rank of the job is gone; the message names it."""


class UnsupportedError(Error, NotImplementedError):
    """What is asked for is not there: a transport, a model's option."""
