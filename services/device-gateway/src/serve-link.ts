import type { AddressLimits } from './address-limits.ts';
import type { Admission } from './admit.ts';
import { Connection } from './connection.ts';
import type { Connections } from './connections.ts';
import {
  CONNACK,
  connack,
  FIRST,
  LONGEST_FRAME_BYTES,
  ProtocolError,
  takeFrames,
} from './frames.ts';
import { receive } from './receive.ts';
import type { Stranger, Strangers } from './strangers.ts';
import type { Wire } from './wire.ts';

export interface LinkDeps {
  connections: Connections;
  strangers: Pick<Strangers, 'forget'>;
  limits: AddressLimits;
  admit(frame: Buffer): Promise<Admission>;
  /** The device pings: time to see whether a row was missed. */
  look(connection: Connection): Promise<void>;
  connected(result: string): void;
}

/** Serves one link over whatever transport, from its first byte to its end. */
export function serveLink(deps: LinkDeps, stranger: Stranger): void {
  const { wire } = stranger;
  const link = new Link(deps, stranger);
  wire.on('data', (bytes) => link.read(bytes));
  wire.on('close', () => link.closed());
  wire.resume();
}

class Link {
  readonly #deps: LinkDeps;
  readonly #wire: Wire;
  /** Let go once the device is known: thousands stay connected. */
  #stranger: Stranger | undefined;
  #stage: 'silent' | 'greeting' | 'connected' | 'refused' = 'silent';
  #connection: Connection | undefined;
  /** The beginning of a packet; while the CONNECT is looked at, all that came behind it. */
  #rest: Buffer | undefined;

  constructor(deps: LinkDeps, stranger: Stranger) {
    this.#deps = deps;
    this.#wire = stranger.wire;
    this.#stranger = stranger;
  }

  read(chunk: Buffer): void {
    if (this.#stage === 'refused') return;
    const bytes = this.#rest === undefined ? chunk : Buffer.concat([this.#rest, chunk]);
    this.#rest = undefined;
    try {
      // Nearly all that comes is one receipt at a time, and nothing is to be cut then.
      if (this.#connection !== undefined && isLoneReceipt(bytes)) {
        receive(this.#deps, this.#connection, bytes);
        return;
      }
      this.#keep(this.#stage === 'greeting' ? bytes : this.#take(bytes));
    } catch (error) {
      this.#end(error);
    }
  }

  closed(): void {
    this.#forgetStranger();
    if (this.#connection !== undefined) this.#deps.connections.close(this.#connection, 'lost');
  }

  #forgetStranger(): void {
    if (this.#stranger !== undefined) this.#deps.strangers.forget(this.#stranger);
    this.#stranger = undefined;
  }

  #take(bytes: Buffer): Buffer {
    // Whoever speaks another protocol (a browser, a scanner) isn't waited for.
    if (this.#stage === 'silent' && bytes[0] !== FIRST.connect) {
      throw new ProtocolError('the first packet is no CONNECT');
    }
    return takeFrames(bytes, (frame) => this.#onFrame(frame));
  }

  /** Nobody needs to send more than one packet ahead of the CONNACK. */
  #keep(rest: Buffer): void {
    if (rest.length > LONGEST_FRAME_BYTES) throw new ProtocolError('too much at once');
    if (rest.length === 0) return;
    // A copy of its own: a few bytes would keep the whole read buffer, or a pool, alive.
    this.#rest = Buffer.allocUnsafeSlow(rest.length);
    rest.copy(this.#rest);
  }

  #onFrame(frame: Buffer): boolean {
    if (this.#connection !== undefined) {
      receive(this.#deps, this.#connection, frame);
      return !this.#wire.destroyed;
    }
    this.#stage = 'greeting';
    if (this.#stranger !== undefined) this.#stranger.isHeard = true;
    this.#greet(Buffer.from(frame)).catch((error: unknown) => this.#end(error));
    // Nothing more is read until it is clear who this is.
    return false;
  }

  async #greet(frame: Buffer): Promise<void> {
    const deps = this.#deps;
    const wire = this.#wire;
    const admission = await deps.admit(frame);
    if (wire.destroyed) return;
    if (!admission.isAdmitted) {
      if (admission.code === CONNACK.badCredentials)
        deps.limits.wrong(this.#stranger?.address ?? '');
      return this.#refuse(admission.code);
    }
    const { token, keepaliveSeconds } = admission.greeting;
    const isTakeover = deps.connections.find(token) !== undefined;
    if (!deps.limits.connect(token, isTakeover)) return this.#refuse(CONNACK.unavailable);
    this.#forgetStranger();
    const { isVerified } = admission;
    const connection = new Connection({ token, wire, keepaliveSeconds, isVerified });
    this.#connection = connection;
    this.#stage = 'connected';
    wire.write(connack(CONNACK.accepted));
    deps.connected('accepted');
    void deps.connections.open(connection);
    this.read(Buffer.alloc(0));
  }

  /** It stays a stranger, and is closed by force when it doesn't go. */
  #refuse(code: number): void {
    this.#stage = 'refused';
    this.#rest = undefined;
    if (this.#stranger !== undefined) this.#stranger.isHeard = false;
    this.#deps.connected(`refused-${code}`);
    this.#wire.end(connack(code));
  }

  #end(error: unknown): void {
    const reason = error instanceof ProtocolError ? 'protocol-error' : 'failed';
    if (this.#connection === undefined) this.#deps.connected(reason);
    else this.#deps.connections.close(this.#connection, reason);
    this.#wire.destroy();
  }
}

function isLoneReceipt(bytes: Buffer): boolean {
  return bytes.length === 4 && bytes[0] === FIRST.puback && bytes[1] === 2;
}
