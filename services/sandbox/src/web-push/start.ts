import { createRequestHandler } from '../response/handle-request.ts';
import type { ProviderContext } from '../transport/provider-context.ts';
import { createTlsServer, type TcpAddress } from '../transport/tls-server.ts';
import { createEndpointPath, findCannedWebPushResponse, serveWebPush } from './serve-web-push.ts';
import { createSubscriptions, type Subscriptions } from './subscriptions.ts';
import { createVapidVerifier } from './vapid.ts';

const CHANNEL = 'web-push';

/** The running push service. */
export interface RunningWebPush {
  port: number;
  subscriptions: Subscriptions;
  /** Builds the endpoint URL of a subscription token. */
  createEndpoint(token: string): string;
  stop(): Promise<void>;
}

/** Starts the simulated push service. */
export async function startWebPush(
  { files, requestLog, scripts, faultConfigs, host }: ProviderContext,
  address: TcpAddress,
): Promise<RunningWebPush> {
  const faultConfig = faultConfigs.get(CHANNEL);
  const server = createTlsServer({
    server: files.server,
    ca: files.ca,
    allowHttp1: true,
    faultConfig,
    onConnection: () => requestLog.countConnection(CHANNEL),
  });
  const subscriptions = createSubscriptions();
  let origin = '';
  const vapidVerifier = createVapidVerifier(() => origin);
  const handleRequest = createRequestHandler({
    channel: CHANNEL,
    scripts,
    requestLog,
    faultConfig,
    findCannedResponse: findCannedWebPushResponse,
  });
  serveWebPush({
    server,
    handleRequest,
    vapidVerifier,
    subscriptions,
    faultConfig,
    origin: () => origin,
  });
  faultConfigs.subscribe(CHANNEL, {
    streamLimit: server.updateStreamLimit,
    expireTokens: vapidVerifier.expireTokens,
  });
  const port = await server.listen(address);
  // URL.origin omits the scheme's default port.
  origin = new URL(`https://${host.includes(':') ? `[${host}]` : host}:${port}`).origin;
  const createEndpoint = (token: string) => `${origin}${createEndpointPath(token)}`;
  return { port, subscriptions, createEndpoint, stop: server.stop };
}
