"""A device on Eclipse Paho: prints a line for each connection and each push, until it is ended.

Arguments: url, token, auth, path of the certificate authority.
"""

import json
import sys
from urllib.parse import urlparse

import paho.mqtt.client as mqtt

url, token, auth, ca = sys.argv[1:5]
at = urlparse(url)


def say(**what):
    print(json.dumps(what), flush=True)


client = mqtt.Client(
    mqtt.CallbackAPIVersion.VERSION2,
    client_id=token,
    clean_session=True,
    protocol=mqtt.MQTTv311,
    transport="websockets" if at.scheme == "ws" else "tcp",
)
client.username_pw_set(token, auth)
if at.scheme == "mqtts":
    client.tls_set(ca)
client.on_connect = lambda _client, _data, _flags, reason, _properties: say(connected=str(reason))
client.on_message = lambda _client, _data, message: say(payload=message.payload.decode())
client.reconnect_delay_set(1, 2)
client.connect(at.hostname, at.port, keepalive=300)
client.loop_forever(retry_first_connection=True)
