"""Uses the client that openapi-python-client has made: sends a push and asks for its status."""

import json
import sys

sys.path[:0] = sys.argv[1:3]
from carillon_client import AuthenticatedClient  # noqa: E402
from carillon_client.api.pushes import get_push, send_push  # noqa: E402
from carillon_client.api.topics import unsubscribe  # noqa: E402
from carillon_client.models import Push, PushData, Unsubscribe  # noqa: E402

api, key, token = sys.argv[3:6]
client = AuthenticatedClient(base_url=api, token=key)
accepted = send_push.sync(client=client, body=Push(to=token, data=PushData(), notification=None))
status = get_push.sync(accepted.id, client=client)
dropped = unsubscribe.sync(client=client, body=Unsubscribe(token=token, topics=["*"]))
print(json.dumps({
    "devices": accepted.info.devices,
    "pending": status.push.pending_devices,
    "dropped": dropped.success,
}))
