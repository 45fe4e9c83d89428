"""The order of the pending requests of a partition, and the waiting for what blocks them.

==================  =================================================================================
module              contents
==================  =================================================================================
`pending_order`     the facts that decide the order, and an order that follows their changes
`scheduling_pass`   the order at one moment with its reasons, and passes that grant or skip requests
`planned_start`     the time at which promised ends have made room for a request
`reservations`      the requests that have reservations, and the requests that they hold back
`waiting_list`      the calls of programs that wait until a request fits
`wake_search`       the search for the pending requests that fit
`request_classes`   the pending requests in classes that all limits answer alike, by what blocks them
`candidate_order`   the order of the requests that may fit
==================  =================================================================================
"""

__all__: list[str] = []
