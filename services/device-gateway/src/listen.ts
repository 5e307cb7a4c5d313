import type { Logger } from '@carillon/runtime/logger';
import { type AcceptContext, type ListenAddress, type Listener, openListener } from './listener.ts';
import type { Origins } from './origins.ts';
import { type SessionContext, startMqttSession } from './session.ts';
import { createTlsListener, type TlsFiles } from './tls-listener.ts';
import { createWebSocketListener } from './websocket-listener.ts';

/** Addresses to listen on; a transport without one is not offered. */
export interface ListenAddresses {
  mqtt?: ListenAddress | undefined;
  mqtts?: ListenAddress | undefined;
  ws?: ListenAddress | undefined;
  /** Required for `mqtts`. */
  tls?: TlsFiles | undefined;
}

/** Settings of the listeners. */
export interface ListenSettings extends Pick<AcceptContext, 'maxConnections' | 'hasProxyHeader'> {
  /** Origins of web pages that may connect over WebSocket. */
  webSocketOrigins: Origins;
  log: Pick<Logger, 'info' | 'warn'>;
}

/** Listens for devices on all transports and starts an MQTT session on each connection. */
export async function listen(
  addresses: ListenAddresses,
  settings: ListenSettings,
  session: SessionContext,
) {
  const { log, webSocketOrigins, maxConnections, hasProxyHeader } = settings;
  const context: AcceptContext = { ...session, maxConnections, hasProxyHeader };
  const listeners: Listener[] = [];
  const transports: { stop(): void }[] = [];
  const countQueued = () => listeners.reduce((sum, listener) => sum + listener.countQueued(), 0);

  async function open(
    listenAddress: ListenAddress | undefined,
    startTransport: Parameters<typeof openListener>[3],
  ): Promise<number> {
    if (listenAddress === undefined) return 0;
    const listener = await openListener(listenAddress, context, countQueued, startTransport);
    listeners.push(listener);
    return listener.port;
  }

  async function openTls(): Promise<number> {
    if (addresses.mqtts === undefined) return 0;
    if (addresses.tls === undefined)
      throw new Error('MQTT over TLS requires a certificate and its key');
    const transport = createTlsListener(addresses.tls, {
      secured: (pending) => startMqttSession(session, pending),
      handshake: (isTls, address) => session.proxyDetector.onTlsHandshake(isTls, address),
      reloaded(failure) {
        if (failure === undefined) log.info('a new TLS certificate is in use');
        else log.warn({ err: failure }, 'the TLS files can not be used');
      },
    });
    transports.push(transport);
    return open(addresses.mqtts, transport.accept);
  }

  async function openWebSocket(): Promise<number> {
    const transport = createWebSocketListener(webSocketOrigins, {
      upgraded: (pending) => startMqttSession(session, pending),
      noHttp: (bytes, address) => session.proxyDetector.onFirstBytes(bytes, address),
      foreignOrigin: () => session.metrics.countConnect('foreign-origin'),
    });
    transports.push(transport);
    return open(addresses.ws, transport.accept);
  }

  return {
    /** Bound ports; 0 for a transport that is not offered. */
    ports: {
      mqtt: await open(addresses.mqtt, (_socket, pending) => startMqttSession(session, pending)),
      mqtts: await openTls(),
      ws: await openWebSocket(),
    },
    /** Stops listening; connections stay open. */
    stop(): void {
      for (const part of [...listeners, ...transports]) part.stop();
    },
  };
}
