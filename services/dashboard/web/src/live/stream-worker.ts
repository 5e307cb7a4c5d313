import { BROWSER_NEEDS } from './browser-stream.ts';
import { createHub, type HubMessage, type LiveSubscription } from './hub.ts';

/** A tab says so often that it is there: a closed tab tells its port nothing. Browsers slow a hidden tab's timers to a minute. */
const TAB_TIMEOUT_MS = 150_000;

const hub = createHub(BROWSER_NEEDS);

self.addEventListener('connect', (event) => {
  const [port] = (event as MessageEvent).ports;
  if (port === undefined) return;
  const receive = (message: HubMessage) => port.postMessage(message);
  const forget = () => hub.remove(receive);
  let timer = setTimeout(forget, TAB_TIMEOUT_MS);
  port.onmessage = ({ data }: MessageEvent<LiveSubscription>) => {
    clearTimeout(timer);
    timer = setTimeout(forget, TAB_TIMEOUT_MS);
    hub.set(receive, data);
  };
});
