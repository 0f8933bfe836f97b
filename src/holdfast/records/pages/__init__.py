"""Pages: many messages as one value. A commit page holds those of one commit, a page of a segment those of some topics.

Read `page_columns` (what both have in common), `commit_pages`, then `segment_pages` with its writer, `segment_index`
(what leads to the pages of a segment) and `segment_rows` (what a filter matches). `lost_pages` tells of commit pages
that are damaged.
"""
