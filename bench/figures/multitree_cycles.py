"""Cycle counts of the published simulator beside ours, and what makes the differences."""
import dataclasses

import common
from multitree_simulator import (DOUBLE_TREE, HDRM, KIB, MESSAGES, PACKETS, PUBLISHED_MESSAGES,
                                 PUBLISHED_PACKETS, PUBLISHED_RING_2D, RING, RING_2D, Setting,
                                 size_name)

ALPHA = Setting("multitree,interfaces=1", "lockstep", model="flit,interfaces=1")
ALPHA_MESH = dataclasses.replace(ALPHA,
                                 algorithm="multitree,step_rule=published,interfaces=1")
COLUMNS = {"ring": RING, "double binary tree": DOUBLE_TREE, "2D-ring": RING_2D, "HDRM": HDRM,
           "MultiTree, one interface": ALPHA, "MultiTree": PACKETS,
           "MultiTree by messages": MESSAGES}
# Network and KiB: the cycles of the authors' interfaces on BookSim, by column.
PUBLISHED = {
    ("4x4 torus", 32): [9344, 10175, 5860, None, 4570, 3508, 3272],
    ("4x4 torus", 256): [39584, 55417, 26516, None, 33242, 20945, 16876],
    ("4x4 torus", 1024): [143264, None, 72178, None, None, 63366, 45901],
    ("8x8 torus", 32): [25916, 21612, 8790, None, 5048, 4588, 4501],
    ("4x4 mesh", 32): [9345, 10737, 7986, None, None, 5348, 5313],
    ("8x8 mesh", 32): [25917, 22479, 19964, None, 12161, 9194, 9169],
    ("64-rank fat-tree", 32): [83123, 25725, None, None, None, 6497, 6320],
    ("64-rank fat-tree", 256): [114119, None, None, None, None, None, 34095],
    ("32-rank BiGraph", 32): [33539, 18026, None, 9249, None, 5350, 5131],
}


def cycles_of_row(simulator, network, kib):
    """Column's name: (published, here), where it was published."""
    settings = COLUMNS | ({"MultiTree, one interface": ALPHA_MESH} if "mesh" in network else {})
    runs = {name: (published, simulator.start(network, setting, kib * KIB))
            for (name, setting), published in zip(settings.items(), PUBLISHED[network, kib])
            if published is not None}
    return {name: (published, run.result()["cycles"]) for name, (published, run) in runs.items()}


def difference(here, published):
    return common.percent(here / published - 1)


def cycles_table(simulator):
    rows = []
    for network, kib in PUBLISHED:
        known = cycles_of_row(simulator, network, kib)
        row = [f"{network}, {size_name(kib * KIB)}"]
        for name in COLUMNS:
            if name in known:
                published, here = known[name]
                row.append(f"{here:,} / {published:,} ({difference(here, published)})")
            else:
                row.append("")
        rows.append(row)
    return common.markdown_table(["network, size", *COLUMNS], rows)


def order_text(simulator):
    """Which rows have their algorithms in another order than the published ones."""
    other = []
    for network, kib in PUBLISHED:
        known = cycles_of_row(simulator, network, kib)
        if (sorted(known, key=lambda name: known[name][0])
                != sorted(known, key=lambda name: known[name][1])):
            other.append(f"{network}, {size_name(kib * KIB)}")
    if other:
        return f"The order of the algorithms is another one in: {'; '.join(other)}.\n"
    return "In every row the algorithms come in the published order.\n"


def variants_table(simulator, settings, places, first="interface"):
    """A row for each variant, a column for each (network, KiB, published, as which setting)."""
    for _, change in settings:
        for network, kib, _, setting in places:
            simulator.start(network, change(setting), kib * KIB)
    rows = []
    for text, change in settings:
        row = [text]
        for network, kib, published, setting in places:
            here = simulator.start(network, change(setting), kib * KIB).result()["cycles"]
            row.append(f"{here:,} ({difference(here, published)})")
        rows.append(row)
    header = [f"{network}, {size_name(kib * KIB)}"
              + (", messages" if setting == MESSAGES else "")
              for network, kib, _, setting in places]
    return common.markdown_table([first, *header], rows)


def options_of(setting, options, gate=None):
    return dataclasses.replace(setting, model=setting.model + options, gate=gate or setting.gate)


def changes(*named):
    """(text, options, gate) as rows of variants_table."""
    return [(text, lambda setting, options=options, gate=gate: options_of(setting, options, gate))
            for text, options, gate in named]


def published_of(network, kib, name):
    return PUBLISHED[network, kib][list(COLUMNS).index(name)]


def meetings_table(simulator):
    """MultiTree on the 4x4 torus: who meets whom at an interface."""
    places = [("4x4 torus", kib, published_of("4x4 torus", kib, name), setting)
              for kib in (256, 1024)
              for name, setting in (("MultiTree", PACKETS), ("MultiTree by messages", MESSAGES))]
    return variants_table(simulator, changes(
        ("as above", "", None),
        ("`binding=link`", ",binding=link", None),
        ("`reduction=streamed`", ",reduction=streamed", None),
        ("`message_buffer=4,send_buffer=4`", ",message_buffer=4,send_buffer=4", None),
        ("`message_buffer=1,send_buffer=1,queue=17`", ",message_buffer=1,send_buffer=1,queue=17",
         None),
        ("`--gate oracle`", "", "oracle"),
        ("`--gate dataflow`", "", "dataflow"),
        ("`interfaces=8`", ",interfaces=8", None),
        ("`priority=none`", ",priority=none", None)), places)


def ring_2d_table(simulator):
    places = [(network, kib, row[list(COLUMNS).index("2D-ring")], RING_2D)
              for (network, kib), row in PUBLISHED.items()
              if row[list(COLUMNS).index("2D-ring")] is not None]
    return variants_table(simulator, changes(
        ("as above, in order", "", None),
        ("`--gate lockstep`", "", "lockstep"),
        ("`--gate oracle`", "", "oracle"),
        ("`--gate dataflow`", "", "dataflow"),
        ("`interfaces=1`", ",interfaces=1", None),
        ("`interfaces=8`", ",interfaces=8", None),
        ("`binding=link`", ",binding=link", None),
        ("`reduction=streamed`", ",reduction=streamed", None),
        ("`vcs=8,buffer=159`", ",vcs=8,buffer=159", None)), places)


def double_tree_table(simulator):
    places = [(network, kib, row[1], DOUBLE_TREE)
              for (network, kib), row in PUBLISHED.items() if row[1] is not None]
    plain = dataclasses.replace(DOUBLE_TREE, reduces_first=False)
    named = [("reduces first, in order", lambda setting: setting),
             ("reduces first, dataflow", lambda setting: options_of(setting, "", "dataflow")),
             ("reduces first, in order, `interfaces=4`",
              lambda setting: dataclasses.replace(setting, model="flit,interfaces=4"))]
    for segments in (1, 8):
        for gate in ("in_order", "dataflow"):
            named.append((f"`--segments {segments} --gate {gate}`",
                          lambda _, segments=segments, gate=gate: dataclasses.replace(
                              plain, segments=segments, gate=gate)))
    return variants_table(simulator, named, places, "schedule")


# Network and KiB: what the authors' simulator takes where a rank's free interfaces are taken in
# ascending order: its 2D ring, MultiTree by packets and by messages.
ASCENDING = {
    ("4x4 torus", 32): [5828, 3526, 3322],
    ("4x4 torus", 256): [28872, 21647, 17651],
    ("4x4 torus", 1024): [69326, 60660, 47147],
    ("4x4 torus", 2048): [134420, None, None],
    ("4x4 torus", 6144): [None, None, 280384],
    ("8x8 torus", 32): [8752, 4565, 4515],
    ("8x8 torus", 256): [43754, None, None],
    ("8x8 torus", 1024): [115882, None, None],
    ("4x4 mesh", 32): [8070, 5303, 5099],
    ("4x4 mesh", 256): [43188, 33233, 28590],
    ("4x4 mesh", 1024): [138290, 116839, 96767],
    ("4x4 mesh", 2048): [257840, None, None],
    ("8x8 mesh", 32): [19876, 9235, 9165],
    ("8x8 mesh", 256): [60956, None, None],
}


def ascending_table(simulator):
    """The published interfaces beside theirs."""
    settings = [PUBLISHED_RING_2D, PUBLISHED_PACKETS, PUBLISHED_MESSAGES]
    runs = {(place, setting): simulator.start(place[0], setting, place[1] * KIB)
            for place, theirs in ASCENDING.items()
            for setting, cycles in zip(settings, theirs) if cycles is not None}
    rows = []
    for place, theirs in ASCENDING.items():
        row = [f"{place[0]}, {size_name(place[1] * KIB)}"]
        for setting, cycles in zip(settings, theirs):
            if cycles is None:
                row.append("")
                continue
            here = runs[place, setting].result()["cycles"]
            row.append(f"{here:,} / {cycles:,} ({difference(here, cycles)})")
        rows.append(row)
    return common.markdown_table(["network, size", "2D-ring", "MultiTree", "MultiTree by messages"],
                                 rows)


def emit(options, name, simulator):
    common.emit(options, name, "ascending", ascending_table(simulator))
    common.emit(options, name, "cycles", cycles_table(simulator) + "\n" + order_text(simulator))
    common.emit(options, name, "meetings", meetings_table(simulator))
    common.emit(options, name, "ring_2d", ring_2d_table(simulator))
    common.emit(options, name, "double_binary_tree", double_tree_table(simulator))
