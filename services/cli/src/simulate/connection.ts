import { describeError } from '@carillon/admin/admin-error';
import { resultWithin } from '@carillon/core/with-timeout';
import { connect, type MqttClient } from 'mqtt';
import { hostOf } from '../database.ts';
import { commandFailed, type Failure, serviceUnreachable } from '../failure.ts';
import type { Credentials } from './credentials.ts';

const KEEPALIVE_SECONDS = 300;
const FIRST_CONNECT_TIMEOUT_MS = 30_000;
/** Minimum delay of a reconnect. */
const RECONNECT_MS = 1_000;
const RECONNECT_JITTER_MS = 1_000;
const DISCONNECT_TIMEOUT_MS = 2_000;

/** CONNACK codes after which a retry can't succeed: 2, 4 and 5 (MQTT 3.1.1, table 3.1). */
const FINAL_CONNACK_CODES: readonly unknown[] = [2, 4, 5];
/** Errors of the first connect after which a retry is unlikely to succeed. */
const UNREACHABLE_CODES: readonly unknown[] = [
  'ECONNREFUSED',
  'ENOTFOUND',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EAI_AGAIN',
];

/** Callbacks of a device's connection. */
export interface ConnectionEvents {
  connected(): void;
  disconnected(): void;
  /** Called with each push, its payload unchanged; the PUBACK is sent after this returns. */
  push(id: string, payload: string, receivedAt: Date): void;
  /** Called when the gateway rejects the device; there is no reconnect. */
  rejected(failure: Failure): void;
}

/** Opens a device's connection, as the SDKs do: MQTT 3.1.1, clean session, token and auth; it reconnects by itself. */
export function openConnection(
  url: string,
  { token, auth }: Credentials,
  events: ConnectionEvents,
) {
  const firstConnect = Promise.withResolvers<void>();
  const gatewayName = `The MQTT gateway at ${hostOf(url)}`;
  const client = connect(url, {
    clientId: token,
    username: token,
    password: auth,
    protocolVersion: 4,
    clean: true,
    keepalive: KEEPALIVE_SECONDS,
    resubscribe: false,
    // CONNACK 3 means that the server is unavailable, which is temporary.
    reconnectOnConnackError: true,
    // Jitter: a thousand devices must not reconnect at the same moment.
    reconnectPeriod: RECONNECT_MS + Math.random() * RECONNECT_JITTER_MS,
  });
  let isConnected = false;
  const connectTimer = setTimeout(() => {
    firstConnect.reject(
      serviceUnreachable(
        `${gatewayName} did not accept the connection within ${FIRST_CONNECT_TIMEOUT_MS / 1_000} s.`,
      ),
    );
  }, FIRST_CONNECT_TIMEOUT_MS);
  client.on('connect', () => {
    isConnected = true;
    firstConnect.resolve();
    events.connected();
  });
  client.on('close', () => {
    if (isConnected) events.disconnected();
    isConnected = false;
  });
  client.on('message', (id, payload) => events.push(id, payload.toString(), new Date()));
  client.on('error', (error) => {
    const code = 'code' in error ? error.code : undefined;
    if (FINAL_CONNACK_CODES.includes(code)) {
      const failure = commandFailed(
        `${gatewayName} rejects the device ${token}: ${error.message}.`,
      );
      client.end(true);
      firstConnect.reject(failure);
      events.rejected(failure);
    } else if (UNREACHABLE_CODES.includes(code)) {
      firstConnect.reject(
        serviceUnreachable(`${gatewayName} can't be reached: ${describeError(error)}.`),
      );
    }
  });
  const ready = firstConnect.promise.finally(() => clearTimeout(connectTimer));
  return {
    /** Resolves at the first connect; rejects with a Failure when it fails. */
    ready,
    /** Closes the connection with DISCONNECT. */
    close: () => {
      isConnected = false;
      firstConnect.resolve();
      return disconnect(client);
    },
  };
}

async function disconnect(client: MqttClient): Promise<void> {
  // Without a responsive server a clean disconnect would never finish.
  await resultWithin(client.endAsync(), DISCONNECT_TIMEOUT_MS, undefined);
  if (!client.disconnected) client.end(true);
}
