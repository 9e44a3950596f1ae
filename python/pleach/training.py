"""Training iterations, simulated under communication policies."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from pleach import _core
from pleach._arguments import in_one_line
from pleach._progress import Progress, progress_or_default
from pleach._results import Training, record_of
from pleach.timing import Source, sources_of


@in_one_line
def train(
    workload: str | os.PathLike[str],
    *,
    topology: str | os.PathLike[str] | None = None,
    ranks: int | None = None,
    strategy: str | None = None,
    policy: str | Sequence[str] | None = None,
    algorithm: Source | Sequence[Source] | None = None,
    costs: str | None = None,
    alpha: str | None = None,
    bandwidth: str | None = None,
    overhead: str | None = None,
    compute: str | None = None,
    batch: int | None = None,
    iterations: int | None = None,
    seed: int | None = None,
    explain: bool = False,
    options: Mapping[str, str | bool] | None = None,
    progress: Progress | None = None,
) -> Training:
    """Simulates a training under several policies. What is None has the default of `pleach train`.

    Args:
        workload: `resnet50`, `gpt3,layers=4`, a JSON file, `chakra:PREFIX`.
        topology: Where: a spec or a file, as `topology()` takes it.
        ranks: With costs of a few numbers and no topology: how many there are.
        strategy: `dp=64,tp=8,pp=8`; None: all ranks are replicas.
        policy: One or several: `dear,bucket=25MiB`.
        algorithm: Of the collectives: `ring`, `auto`, schedules and their files, in order of
            preference.
        costs: `curves`, `full`, `alpha_beta`, ...
        alpha: Per hop, `15us`, with costs of a few numbers.
        bandwidth: Of a rank's link, `10Gb/s`, with them too.
        overhead: Of every collective, before its first byte.
        compute: Scales computation so that an iteration takes this, `250ms`.
        batch: Samples per replica and iteration.
        iterations: At most.
        seed: Of noise and of searches.
        explain: Whether rows have their buckets.
        options: Any other option of `pleach train` by its name: {"slow": "5=1.5"}; of one that has
            no value, whether it is given: {"settled": True}.
        progress: Told what is done next; None: lines on the standard error of a terminal.

    Returns:
        A row for each policy.

    Raises:
        InvalidArgumentError: As the command refuses it; the message names the option.
        UnsupportedError: What an algorithm or a policy does not do.
    """
    policies = ",".join([policy] if isinstance(policy, str) else policy or [])
    given = {
        "topology": topology and os.fspath(topology),
        "ranks": ranks,
        "strategy": strategy,
        "policy": policies or None,
        "costs": costs,
        "alpha": alpha,
        "bandwidth": bandwidth,
        "overhead": overhead,
        "compute": compute,
        "batch": batch,
        "iterations": iterations,
        "seed": seed,
        **(options or {}),
    }
    with sources_of([] if algorithm is None else algorithm) as sources:
        if sources:
            given["algorithm"] = ",".join(sources)
        words = [f"--workload={os.fspath(workload)}", "--json"]
        for name, value in given.items():
            option = f"--{name.replace('_', '-')}"
            if value is True:
                words.append(option)
            elif value is not None and value is not False:
                words.append(f"{option}={value}")
        words += ["--explain"] if explain else []
        text = _core.run_command("train", words, progress_or_default(progress))
    return record_of(Training, text)
