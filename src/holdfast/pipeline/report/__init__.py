"""`holdfast spark report`: a page of HTML about a broker's history.

Read `job` and `figures` (all numbers of a page), `traffic` and `broker_state` (which read them on Spark), then `page`,
`charts` and `formats`, which know no Spark.
"""
