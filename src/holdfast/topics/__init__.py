"""Topic names and filters. Pure.

names, filters, since, subscription    what clients write, checked and parsed
matcher, route_cache                   which subscriptions a topic reaches
overlap                                two filters compared
learned…                               the patterns that topics follow, learned from them (begin with `learned`)
"""
