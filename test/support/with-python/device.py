"""A device with the real pushy-python: tells what happens to it, a line of JSON each."""

import json
import sys

# Behind Python's own modules, one of which a dependency of the SDK would replace.
sys.path.append(sys.argv[1])
import pushy  # noqa: E402


def tell(**what):
    print(json.dumps(what), flush=True)


api, mqtt, app = sys.argv[2:5]
pushy.setEnterpriseConfig(api, mqtt)
pushy.setConnectionListener(lambda: tell(connected=True))
pushy.setNotificationListener(lambda payload: tell(payload=payload))
token = pushy.register({'appId': app})
pushy.subscribe(['news', 'weather'])
pushy.unsubscribe('weather')
tell(token=token)
pushy.loop_forever()
