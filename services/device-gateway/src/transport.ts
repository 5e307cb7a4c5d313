/**
 * The byte stream under an MQTT connection. Implementations: the TCP and TLS sockets of Node, and
 * `WebSocketTransport` (websocket-listener.ts).
 */
export interface Transport {
  readonly destroyed: boolean;
  /** Bytes written that the kernel has not accepted yet. */
  readonly writableLength: number;
  write(bytes: Buffer): unknown;
  /** Starts an orderly close after the given bytes; the peer may not complete the close. */
  end(): unknown;
  end(bytes: Buffer): unknown;
  /** Closes the transport at once. */
  destroy(): unknown;
  /** Starts to emit `data`. */
  resume(): unknown;
  /** Errors are handled where the transport is created; a broken transport always emits `close`. */
  on(event: 'data', listener: (bytes: Buffer) => void): unknown;
  on(event: 'close', listener: () => void): unknown;
}
