import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { setBounded } from '../set-bounded.ts';
import { type Browser, createBrowser } from './browser.ts';
import { type BrowserMessage, browserMessageSchema } from './browser-messages.ts';
import type { BrowserPushService } from './simulated-browser.ts';

const SUBPROTOCOL = 'push-notification';
const MAX_BROWSERS = 1_000;
const MAX_MESSAGE_BYTES = 65_536;

/** The browser side of the push service, which Firefox connects to (Mozilla's push protocol over WebSocket). */
export type Autopush = ReturnType<typeof createAutopush>;

/** Creates the service. A browser that reconnects within the same run gets the messages it missed. */
export function createAutopush(pushService: BrowserPushService) {
  const browsers = new Map<string, Browser>();
  const server = new WebSocketServer({
    noServer: true,
    maxPayload: MAX_MESSAGE_BYTES,
    handleProtocols: (offered) => (offered.has(SUBPROTOCOL) ? SUBPROTOCOL : false),
  });

  function findOrCreateBrowser(uaid: string | undefined): Browser {
    const known = uaid === undefined ? undefined : browsers.get(uaid);
    if (known !== undefined) return known;
    const browser = createBrowser(pushService, randomBytes(16).toString('hex'));
    setBounded(browsers, browser.uaid, browser, MAX_BROWSERS)?.unsubscribeAll();
    return browser;
  }

  server.on('connection', (webSocket) => serveConnection(webSocket, findOrCreateBrowser));

  return {
    /** Checks whether an upgrade request comes from a browser's push client. */
    isBrowserUpgrade: ({ headers }: IncomingMessage): boolean =>
      headers['sec-websocket-protocol']?.includes(SUBPROTOCOL) ?? false,
    handleUpgrade: (request: IncomingMessage, socket: Duplex, head: Buffer): void =>
      server.handleUpgrade(request, socket, head, (webSocket) =>
        server.emit('connection', webSocket),
      ),
    stop: (): void => {
      for (const webSocket of server.clients) webSocket.terminate();
      server.close();
    },
  };
}

function serveConnection(
  webSocket: WebSocket,
  findOrCreateBrowser: (uaid: string | undefined) => Browser,
): void {
  let browser: Browser | undefined;
  const send = (message: object) => webSocket.send(JSON.stringify(message));
  webSocket.on('error', () => undefined);
  webSocket.once('close', () => browser?.onDisconnect(send));
  webSocket.on('message', (data) => {
    const browserMessage = parseBrowserMessage(String(data));
    if (browserMessage === undefined) return;
    if (browserMessage.messageType === 'ping') return webSocket.send('{}');
    if (browserMessage.messageType === 'hello') {
      browser = findOrCreateBrowser(browserMessage.uaid);
      send({
        messageType: 'hello',
        uaid: browser.uaid,
        status: 200,
        use_webpush: true,
        broadcasts: {},
      });
      return browser.onConnect(send);
    }
    browser?.handleMessage(browserMessage);
  });
}

function parseBrowserMessage(text: string): BrowserMessage | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const isPing = JSON.stringify(value) === '{}';
    return isPing ? { messageType: 'ping' } : browserMessageSchema.safeParse(value).data;
  } catch {
    return undefined;
  }
}
