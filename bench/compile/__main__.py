"""./dev python -m bench.compile [--sizes 1,100,1000] [--repeat 3]

Prints, for each size: what check-jsonschema costs to validate the agents' files, and what a2a-claude costs to validate
them and to compile them for all targets into a fresh folder. Then the ratios, and the cost of the smallest commands.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from bench.compile.fleet import write_fleet
from bench.compile.measure import Cost, cost, typical

ROOT = Path(__file__).parent.parent.parent
SCHEMA = ROOT / "schema" / "agent.schema.json"
OURS = (sys.executable, "-m", "a2a_claude")
PEER = (sys.executable, "-m", "check_jsonschema", "--schemafile", SCHEMA)
SMALL = 100


def row(name: str, agents: int | str, spent: Cost) -> None:
    print(f"| {name} | {agents} | {spent.cpu:.3f} | {spent.wall:.3f} | {spent.memory:.0f} |", flush=True)


def measure_fleet(folder: Path, count: int, repeat: int) -> tuple[Cost, Cost]:
    """Prints three rows; gives the costs of check-jsonschema and of compiling. The commands take turns."""
    files = write_fleet(folder, count)
    peer, check, compiled = [], [], []
    for _ in range(repeat if count <= SMALL else 1):
        peer.append(cost([*PEER, *files], folder))
        check.append(cost([*OURS, "validate", "agents"], folder))
        compiled.append(cost([*OURS, "compile", "agents"], folder))
        shutil.rmtree(folder / "deploy")
    row("check-jsonschema", count, typical(peer))
    row("a2a-claude validate", count, typical(check))
    row("a2a-claude compile", count, typical(compiled))
    return typical(peer), typical(compiled)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.compile", description=(__doc__ or "").partition("\n")[2])
    parser.add_argument("--sizes", default="1,100,1000", help="fleets to measure (default: %(default)s)")
    parser.add_argument("--repeat", default=3, type=int, help=f"runs per fleet of up to {SMALL} (default: %(default)s)")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = str(ROOT)  # this checkout, whatever is installed
    sizes = [int(each) for each in options.sizes.split(",")]

    with tempfile.TemporaryDirectory(prefix="a2a-claude-bench-") as temporary:
        root = Path(temporary)
        cost([*OURS, "--help"], root)  # from here on, all byte code is there
        print("| command | agents | CPU s | wall s | peak MB |\n|---|---|---|---|---|")
        results = {count: measure_fleet(root / str(count), count, options.repeat) for count in sizes}
        one = write_fleet(root / "cold", 1)[0].parent
        for arguments in (["--help"], ["validate", str(one)]):
            runs = [cost([*OURS, *arguments], root) for _ in range(3 * options.repeat)]
            row(f"a2a-claude {arguments[0]}", "-" if arguments == ["--help"] else 1, typical(runs))

    print()
    for count, (peer, ours) in results.items():
        ratios = f"{ours.cpu / peer.cpu:.2f} CPU, {ours.wall / peer.wall:.2f} wall"
        print(f"compile / check-jsonschema, {count} agents: {ratios}")
    for smaller, larger in pairwise(sizes):
        growth = results[larger][1].cpu / results[smaller][1].cpu
        print(f"compile, {smaller} to {larger} agents: {growth:.1f} times the CPU")


if __name__ == "__main__":
    main()
