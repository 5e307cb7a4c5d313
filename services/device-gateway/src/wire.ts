/**
 * A link's transport as the gateway sees it: bytes in, bytes out. A TCP socket and a TLS socket are ones as
 * they are, a WebSocket by way of {@link file://./over-websocket.ts}.
 */
export interface Wire {
  readonly destroyed: boolean;
  /** Bytes written that the kernel hasn't taken. */
  readonly writableLength: number;
  write(bytes: Buffer): unknown;
  /** Closes it in good order, behind the bytes if there are any; whether the peer goes along is another matter. */
  end(): unknown;
  end(bytes: Buffer): unknown;
  /** Closes it at once. */
  destroy(): unknown;
  /** Lets data flow. */
  resume(): unknown;
  /** Errors are the maker's: the reason of a broken link is of no use, its close is what counts. */
  on(event: 'data', listener: (bytes: Buffer) => void): unknown;
  on(event: 'close', listener: () => void): unknown;
}
