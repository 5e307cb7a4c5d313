import { ApiError } from '@carillon/core/api-error';

/** Source of a request body that is being received. */
export interface BodySource {
  /** Returns the account and the client address that the bytes count for. Called once, when memory is first held. */
  owners(): readonly string[];
  /** Stops reading from the connection. */
  pause(): void;
  /** Continues reading. */
  resume(): void;
  /** Ends the request with an error. */
  abort(error: ApiError): void;
}

/** Handle of a body that is being received. */
export interface IncomingBody {
  /** Reports bytes received since the last report, and the memory that the whole body holds now. */
  reportProgress(receivedBytes: number, heldBytes: number): void;
  /** Releases the body's memory. Idempotent. */
  close(): void;
}

/** Time without new bytes after which a body counts as stalled, however fast it was before. */
const GRACE_MS = 1_000;
/**
 * Time without new bytes after which a body counts as stalled once the memory reserved for small bodies is used up too.
 */
const SHORT_GRACE_MS = 100;
/** Minimum rate of a body, 8 KB a second. A large body must also be fast enough to be complete before its timeout. */
const MIN_BYTES_PER_MS = 8;
/** Maximum duration of a body; an incomplete one is aborted. */
const BODY_TIMEOUT_MS = 30_000;
/** Maximum size of a small body. A part of the budget is reserved for small bodies. */
const SMALL_BODY_BYTES = 64 * 1_024;
/** Delay between two steps that reclaim memory. */
const CHECK_INTERVAL_MS = 10;
const TIMEOUT_CHECK_INTERVAL_MS = 1_000;
/** Number of portions in which memory is reclaimed; after each, waiting bodies that fit are resumed. */
const RECLAIM_STEPS = 16;

interface BodyState {
  source: BodySource;
  /** Set once the body holds memory. */
  owners?: readonly string[];
  heldBytes: number;
  startedAt: number;
  /** Time at which the body counts as stalled unless more bytes arrive. */
  stalledAt: number;
  isWaiting: boolean;
}

/**
 * Memory budget for request bodies that are being received. While memory suffices, no body is limited. When it is
 * short, bodies are paused, first those of accounts or addresses that hold much, and stalled bodies are aborted. A
 * body that arrives at the minimum rate is never aborted for being slow.
 */
export class BodyBudget {
  readonly #totalBytes: number;
  /** One eighth of the budget is reserved for small bodies. */
  readonly #smallBodyLimitBytes: number;
  /** Another eighth lets one body at a time exceed the rest, so that waiting bodies can't deadlock. */
  readonly #largeBodyLimitBytes: number;
  /** Above this, owners that hold more than their share wait. */
  readonly #shortageThresholdBytes: number;
  readonly #ownerShareBytes: number;

  /** In the order in which they started. */
  readonly #bodies = new Set<BodyState>();
  readonly #waiting = new Set<BodyState>();
  readonly #heldBytesByOwner = new Map<string, number>();
  #heldBytes = 0;
  /** The body that may continue although the budget is used up. */
  #exemptBody: BodyState | undefined;
  #isCheckScheduled = false;
  #timeoutTimer: NodeJS.Timeout | undefined;

  /** @param bytes for all bodies together */
  constructor(bytes: number) {
    this.#totalBytes = bytes;
    this.#smallBodyLimitBytes = (bytes * 7) / 8;
    this.#largeBodyLimitBytes = (bytes * 6) / 8;
    this.#shortageThresholdBytes = this.#largeBodyLimitBytes / 2;
    this.#ownerShareBytes = this.#largeBodyLimitBytes / 4;
  }

  /** Adds a body. */
  open(source: BodySource): IncomingBody {
    const startedAt = performance.now();
    const stalledAt = startedAt + GRACE_MS;
    const body: BodyState = { source, heldBytes: 0, startedAt, stalledAt, isWaiting: false };
    this.#bodies.add(body);
    this.#timeoutTimer ??= setInterval(
      () => this.#abortTimedOut(),
      TIMEOUT_CHECK_INTERVAL_MS,
    ).unref();
    return {
      reportProgress: (receivedBytes, heldBytes) =>
        this.#recordProgress(body, receivedBytes, heldBytes),
      close: () => this.#close(body),
    };
  }

  #recordProgress(body: BodyState, receivedBytes: number, heldBytes: number): void {
    if (!this.#bodies.has(body)) return;
    this.#charge(body, heldBytes - body.heldBytes);
    const requiredBytesPerMs = Math.max(MIN_BYTES_PER_MS, heldBytes / BODY_TIMEOUT_MS);
    const now = performance.now();
    body.stalledAt = Math.min(now + GRACE_MS, body.stalledAt + receivedBytes / requiredBytesPerMs);
    if (body.isWaiting || !this.#mustWait(body)) return;
    body.isWaiting = true;
    this.#waiting.add(body);
    body.source.pause();
    this.#scheduleCheck();
  }

  #close(body: BodyState): void {
    if (!this.#bodies.delete(body)) return;
    this.#waiting.delete(body);
    this.#charge(body, -body.heldBytes);
    if (this.#exemptBody === body) this.#exemptBody = undefined;
    if (this.#waiting.size > 0) this.#scheduleCheck();
  }

  #charge(body: BodyState, deltaBytes: number): void {
    if (deltaBytes === 0) return;
    body.heldBytes += deltaBytes;
    this.#heldBytes += deltaBytes;
    body.owners ??= body.source.owners();
    for (const owner of body.owners) {
      const ownerBytes = (this.#heldBytesByOwner.get(owner) ?? 0) + deltaBytes;
      if (ownerBytes === 0) this.#heldBytesByOwner.delete(owner);
      else this.#heldBytesByOwner.set(owner, ownerBytes);
    }
  }

  /** Returns the memory held by the body's largest owner. */
  #maxOwnerBytes({ owners = [] }: BodyState): number {
    return Math.max(0, ...owners.map((owner) => this.#heldBytesByOwner.get(owner) ?? 0));
  }

  #mustWait(body: BodyState): boolean {
    if (body === this.#exemptBody || this.#heldBytes <= this.#shortageThresholdBytes) return false;
    if (body.heldBytes <= SMALL_BODY_BYTES) return this.#heldBytes > this.#smallBodyLimitBytes;
    return (
      this.#heldBytes > this.#largeBodyLimitBytes ||
      this.#maxOwnerBytes(body) > this.#ownerShareBytes
    );
  }

  /** Runs after arrived bytes are read (setImmediate), so that a busy process does not take a body for stalled. */
  #scheduleCheck(): void {
    if (this.#isCheckScheduled) return;
    this.#isCheckScheduled = true;
    setTimeout(() => setImmediate(() => this.#reclaimMemory()), CHECK_INTERVAL_MS).unref();
  }

  #reclaimMemory(): void {
    this.#isCheckScheduled = false;
    this.#resumeWaiting();
    this.#abortStalled(GRACE_MS, () => this.#waiting.size === 0);
    this.#abortStalled(SHORT_GRACE_MS, () => this.#heldBytes <= this.#smallBodyLimitBytes);
    this.#abortLargestOwners();
    if (this.#waiting.size > 0) this.#scheduleCheck();
  }

  /** Resumes bodies that need not wait any more: small bodies of owners that hold little come first. */
  #resumeWaiting(): void {
    const ranked = [...this.#waiting].map((body) => ({
      body,
      rank: this.#maxOwnerBytes(body) + body.heldBytes,
    }));
    ranked.sort((a, b) => a.rank - b.rank);
    for (const { body } of ranked) {
      this.#exemptBody ??= body;
      if (this.#mustWait(body)) continue;
      body.isWaiting = false;
      this.#waiting.delete(body);
      body.stalledAt = performance.now() + GRACE_MS;
      body.source.resume();
    }
  }

  /** Aborts bodies that stalled for `graceMs` until `isEnough`. */
  #abortStalled(graceMs: number, isEnough: () => boolean): void {
    if (isEnough()) return;
    let heldBytesBefore = this.#heldBytes;
    for (const body of this.#findStalled(graceMs)) {
      if (isEnough()) return;
      this.#abort(body);
      if (heldBytesBefore - this.#heldBytes < this.#totalBytes / RECLAIM_STEPS) continue;
      heldBytesBefore = this.#heldBytes;
      this.#resumeWaiting();
    }
    this.#resumeWaiting();
  }

  /** Lists bodies that stalled for `graceMs`: those of owners above their share first, then the longest stalled. */
  #findStalled(graceMs: number): BodyState[] {
    const stalledBefore = performance.now() + GRACE_MS - graceMs;
    const stalled = [...this.#bodies].filter(
      (body) => !body.isWaiting && body.stalledAt < stalledBefore,
    );
    const ranked = stalled.map((body) => ({
      body,
      isOverShare: this.#maxOwnerBytes(body) > this.#ownerShareBytes,
    }));
    ranked.sort((a, b) => +b.isOverShare - +a.isOverShare || a.body.stalledAt - b.body.stalledAt);
    return ranked.map(({ body }) => body);
  }

  /** Aborts bodies of the largest owners if the waiting bodies alone exceed the budget. */
  #abortLargestOwners(): void {
    if (this.#heldBytes <= this.#totalBytes) return;
    const ranked = [...this.#waiting].map((body) => ({
      body,
      heldBytes: this.#maxOwnerBytes(body),
    }));
    ranked.sort((a, b) => b.heldBytes - a.heldBytes);
    for (const { body } of ranked)
      if (this.#heldBytes > this.#smallBodyLimitBytes) this.#abort(body);
  }

  #abort(body: BodyState, error = new ApiError('SERVICE_UNAVAILABLE')): void {
    this.#close(body);
    body.source.abort(error);
  }

  #abortTimedOut(): void {
    const startedBefore = performance.now() - BODY_TIMEOUT_MS;
    for (const body of this.#bodies) {
      if (body.startedAt > startedBefore) break;
      // A paused body is late because of us, not because of its client.
      this.#abort(body, new ApiError(body.isWaiting ? 'SERVICE_UNAVAILABLE' : 'REQUEST_TIMEOUT'));
    }
    if (this.#bodies.size > 0) return;
    clearInterval(this.#timeoutTimer);
    this.#timeoutTimer = undefined;
  }
}
