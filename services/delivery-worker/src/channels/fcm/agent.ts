import type { ClientRequest } from 'node:http';
import { Agent, type AgentOptions, type RequestOptions } from 'node:https';
import { isIP, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Gateway } from '@carillon/core/credentials';

/** Google's longest answer has a few thousand bytes. */
const MAX_ANSWER_BYTES = 256 * 1_024;
/** Google closes idle links after minutes; one that is about to be closed should not be taken. */
const IDLE_MS = 60_000;

interface Watch {
  deadline: NodeJS.Timeout;
  bytes: number;
}

/**
 * Keeps links to FCM, and ends one whose request has no end in time or whose answer has no end: the library's own
 * timeout looks at idle sockets only, and it keeps a body of any length. All that it overrides is documented for it.
 */
export class FcmAgent extends Agent {
  readonly #deadlineMs: number;
  readonly #gateway: Gateway | undefined;
  readonly #watches = new WeakMap<Duplex, Watch>();

  /** @param gateway where FCM is reached instead of the address asked for */
  constructor(options: AgentOptions, deadlineMs: number, gateway: Gateway | undefined) {
    super({ ...options, keepAlive: true, timeout: IDLE_MS });
    this.#deadlineMs = deadlineMs;
    this.#gateway = gateway;
  }

  /** All links lead to one place, so they need no names to be told apart by. */
  override getName(): string {
    return 'fcm';
  }

  override createConnection(
    options: RequestOptions,
    callback?: (err: Error | null, stream: Duplex) => void,
  ): Duplex | null | undefined {
    const socket = super.createConnection({ ...options, ...redirection(this.#gateway) }, callback);
    if (!socket) return socket;
    this.#watch(socket);
    socket.on('data', (chunk: Buffer) => this.#count(socket, chunk.length));
    socket.once('close', () => clearTimeout(this.#watches.get(socket)?.deadline));
    return socket;
  }

  override reuseSocket(socket: Duplex, request: ClientRequest): void {
    super.reuseSocket(socket, request);
    this.#watch(socket);
  }

  override keepSocketAlive(socket: Duplex): boolean {
    clearTimeout(this.#watches.get(socket)?.deadline);
    // Its answer is "may it be kept", which the types lack.
    return super.keepSocketAlive(socket) as unknown as boolean;
  }

  #watch(socket: Duplex): void {
    clearTimeout(this.#watches.get(socket)?.deadline);
    const end = (): void => void (socket as Socket).destroy(new Error('no answer in time'));
    this.#watches.set(socket, { deadline: setTimeout(end, this.#deadlineMs), bytes: 0 });
  }

  #count(socket: Duplex, bytes: number): void {
    const watch = this.#watches.get(socket);
    if (watch === undefined) return;
    watch.bytes += bytes;
    if (watch.bytes > MAX_ANSWER_BYTES) socket.destroy(new Error('the answer has no end'));
  }
}

/** The gateway proves to be who it is, not to be Google. */
function redirection(gateway: Gateway | undefined): RequestOptions {
  if (gateway === undefined) return {};
  const { host, port, ca } = gateway;
  return { host, port, servername: isIP(host) ? '' : host, ...(ca !== undefined && { ca }) };
}
