import { newClaimId } from '@carillon/core/ids';
import type { Addressee } from '@carillon/presence/gateway-link';
import { type PublishPacket, writePublish } from './publish-packet.ts';
import type { Wire } from './wire.ts';

/** Pushes without a receipt that one device may have at a time. */
export const WINDOW = 16;
const KEPT_ACKNOWLEDGED = 32;
const KEPT_COLLAPSE_KEYS = 32;
/** Bytes waiting in the socket above which nothing more is sent to it. */
const FULL_AT_BYTES = 64 * 1_024;

/** Shared by all that have none, and never written to. */
const NONE: readonly Sent[] = [];
const NO_IDS: string[] = [];

/** A worker that waits for the answer about one recipient. */
export interface Waiter extends Addressee {
  /** It waits so long for the PUBACK; by the monotonic clock. */
  until: number;
  /** When it has written the row of a silent device. */
  rowsWrittenAt: number;
  answered: boolean;
}

/** What a receipt needs to be recorded. */
export interface Owed {
  push: string;
  work: string;
  position: number;
  /** The inbox row that owes it, or would. */
  rowId: string;
}

/** A push written to the socket whose PUBACK hasn't come. */
export interface Sent extends Owed {
  packetId: number;
  /** Milliseconds, monotonic. */
  sentAt: number;
  /** The receipt goes to MongoDB: there is a row, or a worker that no longer waits. */
  toRecord: boolean;
  waiters: Waiter[];
}

/**
 * One device's link. It is `draining` until its inbox is empty, then `live`; `leaving` when we close it for
 * a restart, and takes nothing new; `closed` at last. Thousands of them live in a process: what most never
 * need is made on first use.
 */
export class Connection {
  readonly id = newClaimId();
  readonly token: string;
  readonly wire: Wire;
  /** The device is gone when it said nothing for so long (MQTT 3.1.1, 3.1.2.10). */
  readonly silenceMs: number;
  state: 'draining' | 'live' | 'leaving' | 'closed' = 'draining';
  /** Whether MongoDB knows the device; false when it could not be asked at CONNECT. */
  isVerified: boolean;
  heardAt = performance.now();
  /** Since when the socket has held bytes; 0: it holds none. */
  stuckSince = 0;
  /** Packets of the last second that prove nothing. */
  idlePackets = 0;
  /** The last look into the inbox that a PINGREQ caused. */
  lookedAt = performance.now();
  /** When to look whether a row was written after all; 0: no reason. */
  lookAt = 0;
  /** The inbox isn't read before. */
  readAfter = 0;
  /** A row was written since the last read. */
  isUnread = false;
  /** Pushes answered `draining`, whose rows must not be overtaken, and when these are there at the latest. */
  rowsDue: Map<string, number> | undefined;
  isReading = false;
  /** A worker waits for a PUBACK, or did a moment ago. */
  isAwaited = false;
  /** Receipts on their way to MongoDB. */
  recording = 0;
  /** Wakes whoever waits for this connection to change. */
  wake: (() => void) | undefined;
  /** Nearly always none or one: a list of its own would keep room for more in each of thousands. */
  inFlight: readonly Sent[] = NONE;
  /** The last of them, in a ring. */
  #acknowledged: string[] = NO_IDS;
  #nextAcknowledged = 0;
  /** The newest of them: what is newer still needs no search. */
  #newestAcknowledged = '';
  #newest: Map<string, string> | undefined;
  #packetId = 0;

  constructor(device: {
    token: string;
    wire: Wire;
    keepaliveSeconds: number;
    isVerified: boolean;
  }) {
    this.token = device.token;
    this.wire = device.wire;
    this.silenceMs = device.keepaliveSeconds * 1_500;
    this.isVerified = device.isVerified;
  }

  isOpen(): boolean {
    return this.state === 'draining' || this.state === 'live';
  }

  isFull(): boolean {
    return this.inFlight.length >= WINDOW || this.wire.writableLength > FULL_AT_BYTES;
  }

  /** Writes a push to the socket. */
  send(packet: PublishPacket, owed: Owed, collapse?: string, dup = false): Sent {
    const { push, work, position, rowId } = owed;
    // With 16 in flight an id is free again long before the counter comes round.
    this.#packetId = (this.#packetId % 65_535) + 1;
    const sent: Sent = {
      push,
      work,
      position,
      rowId,
      packetId: this.#packetId,
      sentAt: performance.now(),
      toRecord: false,
      waiters: [],
    };
    this.inFlight = this.inFlight.length === 0 ? [sent] : this.inFlight.concat(sent);
    if (collapse !== undefined) this.#noteNewest(collapse, push);
    writePublish(packet, sent.packetId, dup, this.wire);
    return sent;
  }

  /** Takes a PUBACK; undefined when nothing of that id is in flight. */
  acknowledge(packetId: number): Sent | undefined {
    const sent = this.inFlight.find((one) => one.packetId === packetId);
    if (sent === undefined) return undefined;
    this.inFlight = this.inFlight.length === 1 ? NONE : this.inFlight.filter((one) => one !== sent);
    this.#noteAcknowledged(sent.push);
    this.stuckSince = 0;
    return sent;
  }

  findInFlight(push: string): Sent | undefined {
    return this.inFlight.find((sent) => sent.push === push);
  }

  hasAcknowledged(push: string): boolean {
    return push <= this.#newestAcknowledged && this.#acknowledged.includes(push);
  }

  /** Whether a newer push of the collapse key went out here (guarantee G9). */
  hasNewer(collapse: string | undefined, push: string): boolean {
    return collapse !== undefined && (this.#newest?.get(collapse) ?? '') > push;
  }

  #noteAcknowledged(push: string): void {
    if (push > this.#newestAcknowledged) this.#newestAcknowledged = push;
    if (this.#acknowledged.length < KEPT_ACKNOWLEDGED) {
      // Pushed to, it would take room for many at once.
      this.#acknowledged = this.#acknowledged.concat(push);
      return;
    }
    this.#acknowledged[this.#nextAcknowledged] = push;
    this.#nextAcknowledged = (this.#nextAcknowledged + 1) % KEPT_ACKNOWLEDGED;
  }

  #noteNewest(collapse: string, push: string): void {
    this.#newest ??= new Map();
    this.#newest.delete(collapse);
    this.#newest.set(collapse, push);
    if (this.#newest.size <= KEPT_COLLAPSE_KEYS) return;
    for (const oldest of this.#newest.keys()) return void this.#newest.delete(oldest);
  }
}
