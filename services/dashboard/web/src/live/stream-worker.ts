import { BROWSER_NEEDS } from './browser-stream.ts';
import { createHub, type HubMessage, type LiveSubscription } from './hub.ts';

/**
 * Interval at which a tab reports that it is open: a closed tab sends nothing to its port. Browsers slow a hidden tab's
 * timers to a minute.
 */
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
