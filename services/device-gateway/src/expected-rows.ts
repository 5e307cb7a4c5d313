import type { DeliveryRef } from './delivery-ref.ts';
import type { PublishPacket } from './publish-packet.ts';

/** Most pushes that a connection holds, above which later ones come from the inbox. */
const MAX_HELD = 32;

/** A dispatched push that a syncing connection keeps in memory, to send it before its inbox row is written. */
export interface HeldPush {
  ref: DeliveryRef;
  packet: PublishPacket;
  /** Time until which its state needs no other read; monotonic milliseconds. */
  writeBy: number;
  /** MongoDB's time, milliseconds. */
  expiresAt: number;
}

/**
 * The pushes whose result was `syncing`, whose inbox rows workers write. Held ones can be sent without their rows, up
 * to the first that is not held: with a slow MongoDB a row takes seconds, in which more pushes arrive, and a connection
 * that waited for the rows of all would never go live.
 */
export class ExpectedRows {
  readonly #rows = new Map<string, { writtenBy: number; held: HeldPush | undefined }>();

  get size(): number {
    return this.#rows.size;
  }

  /** Adds a push, whose first deadline holds. */
  add(push: string, writtenBy: number, held: HeldPush | undefined): void {
    if (this.#rows.has(push)) return;
    this.#rows.set(push, { writtenBy, held: this.#rows.size < MAX_HELD ? held : undefined });
  }

  /** Lets pushes wait for their rows. */
  releaseHeld(): void {
    for (const row of this.#rows.values()) row.held = undefined;
  }

  delete(push: string): void {
    this.#rows.delete(push);
  }

  /** Deletes pushes whose rows are written at the latest now; returns whether there were any. */
  expire(): boolean {
    const now = performance.now();
    const before = this.#rows.size;
    for (const [push, { writtenBy }] of this.#rows) if (now >= writtenBy) this.#rows.delete(push);
    return this.#rows.size < before;
  }

  isHeld(push: string): boolean {
    return this.#rows.get(push)?.held !== undefined;
  }

  /** Lists the pushes to send without their rows, in the order in which they arrived: none overtakes one that is not held. */
  listHeld(): HeldPush[] {
    const pushes: HeldPush[] = [];
    for (const { held } of this.#rows.values()) {
      if (held === undefined) break;
      pushes.push(held);
    }
    return pushes;
  }
}
