"""The API server's protobuf encoding of Nodes, reduced to what the bridge reads.

    fields.py    tags, lengths and numbers: the parts of every message
    node.py      a Node
    messages.py  an object as the API server sends it: a Node, or a Status with an error
    stream.py    a list of Nodes, and the events of a watch, while they arrive

A Node takes a third of the server's and the bridge's time in this encoding that it takes as JSON: what is
not read, such as the names of 50 images, is skipped by its length. The field numbers are those of
``generated.proto`` of k8s.io/api/core/v1 and k8s.io/apimachinery, which never change. The values have the
form that JSON has, so that both encodings lead to the same view of a Node.
"""
