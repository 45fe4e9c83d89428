"""Responses in the format of the REST interface of Apache YuniKorn, for its clients.

The names and types of fields are those of ``pkg/webservice/dao`` of yunikorn-core at commit be3bb487.
Fields about which a partition knows nothing, such as the node of an allocation, are left out.
Where the design documents of YuniKorn use another name for a field, the response has both.
"""
