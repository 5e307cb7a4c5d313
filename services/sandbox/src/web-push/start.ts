import { createMeet } from '../answer/meet.ts';
import type { Shared } from '../wire/shared.ts';
import { type At, createTlsServer } from '../wire/tls-server.ts';
import { endpointPath, namedWebPush, playWebPush } from './server.ts';
import { createSubscriptions, type Subscriptions } from './subscriptions.ts';
import { createVapid } from './vapid.ts';

const CHANNEL = 'web-push';

/** A push service that runs. */
export interface RunningWebPush {
  port: number;
  subscriptions: Subscriptions;
  /** The endpoint with this last path segment. */
  endpoint(token: string): string;
  stop(): Promise<void>;
}

/** Starts the push service. */
export async function startWebPush(
  { files, journal, scripts, conducts, host }: Shared,
  at: At,
): Promise<RunningWebPush> {
  const conduct = conducts.of(CHANNEL);
  const server = createTlsServer({
    server: files.server,
    ca: files.ca,
    allowHttp1: true,
    conduct,
    onConnection: () => journal.connected(CHANNEL),
  });
  const subscriptions = createSubscriptions();
  let origin = '';
  const vapid = createVapid(() => origin);
  const meet = createMeet({ channel: CHANNEL, scripts, journal, conduct, named: namedWebPush });
  playWebPush({ server, meet, vapid, subscriptions, conduct, origin: () => origin });
  conducts.listen(CHANNEL, { streamLimit: server.limitStreams, expireTokens: vapid.expire });
  const port = await server.listen(at);
  // A URL's origin has no port where it is the scheme's own.
  origin = new URL(`https://${host.includes(':') ? `[${host}]` : host}:${port}`).origin;
  const endpoint = (token: string) => `${origin}${endpointPath(token)}`;
  return { port, subscriptions, endpoint, stop: server.stop };
}
