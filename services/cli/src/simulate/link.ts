import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type MqttClient } from 'mqtt';
import { placeOf } from '../database.ts';
import { type Failure, reasonOf, refused, unreachable } from '../failure.ts';
import type { Credentials } from './credentials.ts';

const KEEPALIVE_SECONDS = 300;
const FIRST_CONNECT_MS = 30_000;
const RECONNECT_MS = 1_000;
const RECONNECT_SPREAD_MS = 1_000;
const GOODBYE_MS = 2_000;

/** CONNACK 2, 4 and 5 (MQTT 3.1.1, table 3.1): no other try will end better. */
const FINAL_REFUSALS: readonly unknown[] = [2, 4, 5];
/** What a first connect can meet that waiting won't mend. */
const NO_SERVER: readonly unknown[] = [
  'ECONNREFUSED',
  'ENOTFOUND',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EAI_AGAIN',
];

/** What happens on a device's link. */
export interface LinkEvents {
  connected(): void;
  disconnected(): void;
  /** A push came: its id, its payload as it came, and when. Its receipt goes out after this returns. */
  push(id: string, payload: string, receivedAt: Date): void;
  /** The gateway doesn't let this device in; the link is closed for good. */
  refused(failure: Failure): void;
}

/** A device's link, which reconnects by itself. */
export interface Link {
  /** Resolves at the first connect. @throws Failure when there is none */
  ready: Promise<void>;
  /** Ends it with DISCONNECT. */
  close(): Promise<void>;
}

/** Opens the link of a device as the SDKs do: MQTT 3.1.1, clean session, token and auth. */
export function openLink(url: string, { token, auth }: Credentials, events: LinkEvents): Link {
  const first = Promise.withResolvers<void>();
  const where = `The MQTT gateway at ${placeOf(url)}`;
  const client = connect(url, {
    clientId: token,
    username: token,
    password: auth,
    protocolVersion: 4,
    clean: true,
    keepalive: KEEPALIVE_SECONDS,
    resubscribe: false,
    // CONNACK 3 is an outage, which ends.
    reconnectOnConnackError: true,
    // Spread, so that a thousand devices don't come back in the same moment.
    reconnectPeriod: RECONNECT_MS + Math.random() * RECONNECT_SPREAD_MS,
  });
  let isUp = false;
  const noFirst = setTimeout(() => {
    first.reject(unreachable(`${where} let nobody in within ${FIRST_CONNECT_MS / 1_000} s.`));
  }, FIRST_CONNECT_MS);
  client.on('connect', () => {
    isUp = true;
    first.resolve();
    events.connected();
  });
  client.on('close', () => {
    if (isUp) events.disconnected();
    isUp = false;
  });
  client.on('message', (id, payload) => events.push(id, payload.toString(), new Date()));
  client.on('error', (error) => {
    const code = 'code' in error ? error.code : undefined;
    if (FINAL_REFUSALS.includes(code)) {
      const failure = refused(`${where} refuses the device ${token}: ${error.message}.`);
      client.end(true);
      first.reject(failure);
      events.refused(failure);
    } else if (NO_SERVER.includes(code)) {
      first.reject(unreachable(`${where} can't be reached: ${reasonOf(error)}.`));
    }
  });
  const ready = first.promise.finally(() => clearTimeout(noFirst));
  return {
    ready,
    close: () => {
      isUp = false;
      first.resolve();
      return end(client);
    },
  };
}

async function end(client: MqttClient): Promise<void> {
  // Without a server to answer, a polite end would wait for ever.
  await Promise.race([client.endAsync(), sleep(GOODBYE_MS, undefined, { ref: false })]);
  if (!client.disconnected) client.end(true);
}
