"""Pictures of hubs: before, after, the difference, and images whose searches they take."""

from collections.abc import Mapping

import torch
from torch import Tensor

from holdfast.core import Album, registry
from holdfast.core.album import Entries
from holdfast.numerics.geometry.index import Index
from holdfast.parts.failures.hub import Hub
from holdfast.parts.observations.shared.stored_changes import rows_of, write_change

KEPT = 16
"""Images of the population, the first ones, whose changes are kept."""

SHOWN, TAKEN = 3, 8
"""Hubs that are shown, and of each as many searches that it takes."""


def hub_pictures(hub: Hub, results: Mapping[str, Tensor], album: Album) -> Entries:
    """Write pictures of the hubs that take most searches; return the record's entries.

    Of searches that checks alone make there are none.

    Args:
        hub: what was sought.
        results: of the search: `reps`, and what `pack_first_changes` returned.
        album: the images, and where files go.
    """
    measures = registry.names("measures")
    asked = any(reader.partition("[")[0] in measures for reader in album.readers)
    if not asked or album.picture(0).shape[0] not in (1, 3):
        return []
    hosts = torch.tensor(sorted(rows_of(results)))
    index = Index.of(album.clean, hub.k, hub.divergence, hub.rescaling)
    apart = index.apart(results["reps"][hosts].double(), hosts)
    taken = apart < index.reach_without(hosts) - index.slack
    # Those that take most first, of equals the first ones
    order = taken.sum(1).sort(descending=True, stable=True).indices[:SHOWN]
    entries, shown, folder = [], set[int](), f"pictures/{album.slug}"
    for place, host in enumerate(order.tolist()):
        position = int(hosts[host])
        largest, files = write_change(results, position, album, f"{folder}/hub{album.number}-{place}")
        # Of the searches that are taken those that the hub is farthest from: no copies of it
        some = apart[host].masked_fill(~taken[host], -torch.inf).sort(descending=True, stable=True).indices
        queries = some[: min(TAKEN, int(taken[host].sum()))].tolist()
        shown.update(queries)
        entries.append(
            {
                "id": album.ids[position],
                "title": f"searches by {hub.by}",
                "taken": int(taken[host].sum()),
                "asked": len(album.clean) - 1,
                "amplified": 0.5 / max(largest, 1e-9),
                "queries": [{"id": album.ids[q], "picture": f"{folder}/query-{q}.png"} for q in queries],
                **files,
            }
        )
    for query in sorted(shown):
        album.files.write_picture(f"{folder}/query-{query}.png", album.picture(query))
    return entries
