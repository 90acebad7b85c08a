"""Builds the real engines and prints how far it is: `python -m tests.real.build`, ten minutes on two idle cores.

The engines' tests build what is not there yet. `.ci/install --thorough` calls this. It knows nothing
of how an engine is built (`environment.py`, `dynamo_environment.py` and the others), and it starts none.
"""

import sys

from tests.real.dynamo_environment import dynamo_environment
from tests.real.environment import BuildError, vllm_environment
from tests.real.llama_cpp_environment import llama_cpp_environment
from tests.real.triton_environment import triton_environment


def main() -> int:
    """Exit status: 0 when all engines are there, 1 when one could not be built."""

    def say(line: str) -> None:
        print(line, flush=True)  # noqa: T201  a script that a person runs

    try:
        triton_environment(say)
        model = vllm_environment(say).model
        dynamo_environment(model, say)
        llama_cpp_environment(model, say)
    except BuildError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
