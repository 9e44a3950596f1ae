"""How FRED's evaluation spreads its trainings over 20 NPUs: what `pleach train` is asked."""

FABRICS = {"mesh": "wafer_mesh:5x4", "A": "fred:A", "B": "fred:B", "C": "fred:C", "D": "fred:D"}
IN_SWITCH = {"B", "D"}
# How weights come in and gradients leave: by trees that load no link twice where they can.
IO_ALGORITHMS = {fabric: "in_switch" if fabric in IN_SWITCH else "io_tree" for fabric in FABRICS}

# Of the paper's figures 2 and 11: MP, DP, PP of 20 NPUs, and one of 18.
STRATEGIES = [(mp, 20 // mp // pp, pp) for mp in (1, 2, 4, 5, 10, 20) for pp in (1, 2, 4, 5, 10, 20)
              if 20 % (mp * pp) == 0] + [(3, 3, 2)]
# By name: workload, and micro-batches by PP (none: as many as stages).
SWEPT = {"Transformer-17B": ("transformer_17b", {1: 1, 2: 10, 4: 20, 5: 20, 10: 20, 20: 40}),
         "Transformer-1T": ("transformer_1t", None)}
SWEPT_BATCH = 40


def swept_strategy(micro_batches, mp, dp, pp):
    """As `--strategy` takes it; weights stream where micro-batches are not given."""
    strategy = f"dp={dp},tp={mp},pp={pp},"
    strategy += f"micro_batches={pp if micro_batches is None else micro_batches[pp]}"
    strategy += ",stream=io" if micro_batches is None else ""
    strategy += f",idle={20 - mp * dp * pp}" if mp * dp * pp < 20 else ""
    return strategy


def roofline(faster):
    """An H100 whose every part is so much faster."""
    return (f"h100,operations={989e12 * faster:.6g},memory={3.35e12 * faster:.0f}B/s,"
            f"overhead={5e6 / faster:.0f}ps")


def train_options(fabric, workload, strategy, batch, faster):
    """Options of `pleach train` by name, all but its policy.

    Gradients travel after backward, as the paper exposes them. `strategy` does not say how
    micro-batches go over the network.
    """
    ends = "in_switch," if fabric in IN_SWITCH else ""
    rings = "hierarchical,shares=best,ring" if fabric == "mesh" else "hierarchical,ring"
    families = {"io": IO_ALGORITHMS[fabric]} if "stream=io" in strategy else {}
    multicasts = "pp=" in strategy and "tp=1," not in strategy and "pp=1," not in strategy
    if multicasts:
        families["pipeline"] = f"{ends}ring"
    spread = [strategy, "optimizer=none", "placement=" + ("mesh" if fabric == "mesh" else "fred")]
    if multicasts:
        spread.append("outputs=multicast")
    options = {"workload": workload, "topology": FABRICS[fabric], "strategy": ",".join(spread),
               "batch": batch, "accelerator": roofline(faster), "segments": "auto",
               "algorithm": ends + rings}
    if families:
        options["family_algorithms"] = ";".join(f"{family}={algorithm}"
                                                for family, algorithm in families.items())
    return options
