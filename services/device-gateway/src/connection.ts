import { newClaimId } from '@carillon/core/ids';
import type { Span } from '@carillon/core/tracing';
import type { ReplyTo } from '@carillon/presence/replies';
import { AcknowledgedPushes } from './acknowledged-pushes.ts';
import type { AppLoad } from './app-shares.ts';
import type { DeliveryRef } from './delivery-ref.ts';
import type { DispatchSpan } from './dispatch-span.ts';
import { type PublishPacket, writePublish } from './publish-packet.ts';
import type { Transport } from './transport.ts';

/** Maximum pushes without a PUBACK that a device has at a time. */
const MAX_IN_FLIGHT = 16;
const MAX_REMEMBERED_COLLAPSE_KEYS = 32;
/** Maximum bytes buffered in the socket with which a further push is written to it. */
const MAX_BUFFERED_BYTES = 64 * 1_024;

/**
 * Time after which a connected device is recorded as seen again. A gateway that is killed records no end of its connections: its
 * devices were seen so long ago at most.
 */
const SEEN_INTERVAL_MS = 6 * 3_600_000;

/** List that all connections with nothing in flight share; never modified. */
const NONE_IN_FLIGHT: readonly InFlightPublish[] = [];
const NO_REPLIES: readonly PendingReply[] = [];

/** Shared by the replies about recipients of a dispatch that were written together: thousands may be pending. */
export interface SharedReply {
  to: ReplyTo;
  /** Time by which the worker has written the inbox row of an unacknowledged push; undefined if it writes none. */
  rowsWrittenBy: number | undefined;
  /** Counts the results of the dispatch, if its push is traced. */
  span: DispatchSpan | undefined;
  /** End of the wait for the PUBACKs; monotonic milliseconds. */
  ackDeadline: number;
  /** Connections that the push was written to. */
  connections: Connection[];
  /** Number of recipients without a reply among them. */
  unreplied: number;
}

/** A worker that waits for the result of one delivery. */
export interface PendingReply {
  shared: SharedReply;
  position: number;
  isReplied: boolean;
}

/** A push that was written to the socket and has no PUBACK yet. */
export interface InFlightPublish extends DeliveryRef {
  packetId: number;
  /** Monotonic milliseconds. */
  sentAt: number;
  /** The gateway records the receipt in MongoDB: there is an inbox row, or the worker no longer waits. */
  mustRecordReceipt: boolean;
  pendingReplies: readonly PendingReply[];
  /** The span of a replay, from the write to the PUBACK; only a traced push has it. */
  span?: Span;
}

/**
 * The MQTT connection of one device. It is `syncing` until its inbox is empty, then `live`; `closing` during a
 * restart, when no new push is written to it; then `closed`. A process holds thousands of them: state that most never
 * need is created on first use, and small arrays are copied rather than extended, because `push` reserves room for
 * many elements.
 */
export class Connection {
  readonly id = newClaimId();
  readonly token: string;
  readonly transport: Transport;
  /** Longest silence of the device, one and a half keepalives (MQTT 3.1.1, 3.1.2.10). */
  readonly keepaliveTimeoutMs: number;
  readonly connectedAt = performance.now();
  #app: AppLoad;
  #state: 'syncing' | 'live' | 'closing' | 'closed' = 'syncing';
  #isVerified: boolean;
  /** End of the device, by MongoDB's clock. */
  #expiresAt: Date | undefined;
  #lastPacketAt = this.connectedAt;
  /** When the device was last recorded as seen. */
  #seenAt = this.connectedAt;
  /** Time since which the socket has buffered bytes without a PUBACK; 0 if it has none. */
  #writeBlockedSince = 0;
  /** Packets of the last second other than expected PUBACKs. */
  #controlPacketCount = 0;
  /** Last inbox check that a PINGREQ caused. */
  #inboxCheckedAt = this.connectedAt;
  /** Time at which the reaper checks the inbox; 0 means not scheduled. */
  #recheckAt = 0;
  #hasUnreadRows = false;
  #isReplaying = false;
  /** Pushes that were left to the inbox, and the times by which workers have written their rows. */
  #awaitedRows: Map<string, number> | undefined;
  /** Receipts that are being written to MongoDB. */
  #pendingReceiptCount = 0;
  #resumeWaiter: (() => void) | undefined;
  #inFlight: readonly InFlightPublish[] = NONE_IN_FLIGHT;
  #acknowledged: AcknowledgedPushes | undefined;
  #newestByCollapseKey: Map<string, string> | undefined;
  #packetId = 0;

  /** @param device `isVerified` is false when MongoDB could not be read at CONNECT */
  constructor(device: {
    token: string;
    app: AppLoad;
    transport: Transport;
    keepaliveSeconds: number;
    isVerified: boolean;
    expiresAt: Date | undefined;
  }) {
    this.token = device.token;
    this.transport = device.transport;
    this.keepaliveTimeoutMs = device.keepaliveSeconds * 1_500;
    this.#app = device.app;
    this.#isVerified = device.isVerified;
    this.#expiresAt = device.expiresAt;
  }

  get state(): 'syncing' | 'live' | 'closing' | 'closed' {
    return this.#state;
  }

  /** Load of the device's app on this process. */
  get app(): AppLoad {
    return this.#app;
  }

  /** Pushes without a PUBACK, oldest first. */
  get inFlight(): readonly InFlightPublish[] {
    return this.#inFlight;
  }

  isOpen(): boolean {
    return this.#state === 'syncing' || this.#state === 'live';
  }

  /** Moves the connection to another app's load, once its app is known. */
  assignApp(app: AppLoad): void {
    this.#app = app;
  }

  /** Checks whether MongoDB has confirmed that the device exists. */
  isVerified(): boolean {
    return this.#isVerified;
  }

  /** Takes the end that the device has now. */
  setExpiry(expiresAt: Date | undefined): void {
    this.#expiresAt = expiresAt;
  }

  /** Checks whether the device has ended. */
  isExpired(nowMs: number): boolean {
    return this.#expiresAt !== undefined && this.#expiresAt.getTime() <= nowMs;
  }

  markVerified(): void {
    this.#isVerified = true;
  }

  /**
   * Stops accepting pushes, before the close.
   *
   * @returns false if the connection is not open any more
   */
  markClosing(): boolean {
    if (!this.isOpen()) return false;
    this.#state = 'closing';
    this.#resume();
    return true;
  }

  /** Closes the transport at once and returns the pushes that were in flight. */
  close(): readonly InFlightPublish[] {
    const unacknowledged = this.#inFlight;
    this.#state = 'closed';
    this.#inFlight = NONE_IN_FLIGHT;
    this.#awaitedRows = undefined;
    this.transport.destroy();
    this.#resume();
    return unacknowledged;
  }

  /** Writes a push to the socket. */
  send(
    packet: PublishPacket,
    { push, work, position, rowId, notify }: DeliveryRef,
    collapse?: string,
    dup = false,
  ): InFlightPublish {
    // With 16 in flight an id is free long before the counter reaches it again.
    this.#packetId = (this.#packetId % 65_535) + 1;
    const publish: InFlightPublish = {
      push,
      work,
      position,
      rowId,
      packetId: this.#packetId,
      sentAt: performance.now(),
      mustRecordReceipt: false,
      pendingReplies: NO_REPLIES,
    };
    if (notify !== undefined) publish.notify = notify;
    this.#inFlight = this.#inFlight.length === 0 ? [publish] : this.#inFlight.concat(publish);
    if (collapse !== undefined) this.#rememberNewest(collapse, push);
    writePublish(packet, publish.packetId, dup, this.transport);
    return publish;
  }

  /**
   * Removes the push of a PUBACK from those in flight.
   *
   * @returns undefined if no push has this packet id
   */
  acknowledge(packetId: number): InFlightPublish | undefined {
    const inFlight = this.#inFlight;
    const publish = inFlight.find((one) => one.packetId === packetId);
    if (publish === undefined) return undefined;
    this.#inFlight =
      inFlight.length === 1 ? NONE_IN_FLIGHT : inFlight.filter((one) => one !== publish);
    this.#acknowledged ??= new AcknowledgedPushes();
    this.#acknowledged.add(publish.push);
    this.#writeBlockedSince = 0;
    return publish;
  }

  /** Lets {@link waitUntil} check its condition, after a PUBACK was handled. */
  notifyAcknowledged(): void {
    this.#resume();
  }

  findInFlight(push: string): InFlightPublish | undefined {
    return this.#inFlight.find((publish) => publish.push === push);
  }

  hasAcknowledged(push: string): boolean {
    return this.#acknowledged?.has(push) ?? false;
  }

  /** Checks whether a push was sent on this connection, as far as it is remembered. */
  hasSent(push: string): boolean {
    return this.findInFlight(push) !== undefined || this.hasAcknowledged(push);
  }

  /** Checks whether a newer push of the collapse key was sent on this connection (guarantee G9). */
  hasNewer(collapse: string | undefined, push: string): boolean {
    return collapse !== undefined && (this.#newestByCollapseKey?.get(collapse) ?? '') > push;
  }

  /** Checks whether the device must acknowledge, or read from its socket, before the next push. */
  isFull(): boolean {
    return (
      this.#inFlight.length >= MAX_IN_FLIGHT || this.transport.writableLength > MAX_BUFFERED_BYTES
    );
  }

  /** Pushes that may be sent before the window is full. */
  freeSlots(): number {
    return MAX_IN_FLIGHT - this.#inFlight.length;
  }

  /** Checks whether at least half of the window is free, so that reading of the inbox continues. */
  hasWindowSpace(): boolean {
    return this.#inFlight.length <= MAX_IN_FLIGHT / 2;
  }

  /** Records that the device has sent a packet, for its keepalive. Returns whether it is due to be recorded as seen. */
  recordPacket(): boolean {
    const now = performance.now();
    this.#lastPacketAt = now;
    if (now - this.#seenAt < SEEN_INTERVAL_MS) return false;
    this.#seenAt = now;
    return true;
  }

  isSilent(now: number): boolean {
    return now - this.#lastPacketAt > this.keepaliveTimeoutMs;
  }

  /** Counts a packet other than an expected PUBACK; returns the count of this second. */
  countControlPacket(): number {
    this.#controlPacketCount += 1;
    return this.#controlPacketCount;
  }

  resetControlPackets(): void {
    this.#controlPacketCount = 0;
  }

  /** Milliseconds that the socket has had buffered bytes; called about once a second, which is its precision. */
  measureWriteBlockedMs(now: number): number {
    if (this.transport.writableLength === 0) this.#writeBlockedSince = 0;
    else if (this.#writeBlockedSince === 0) this.#writeBlockedSince = now;
    return this.#writeBlockedSince === 0 ? 0 : now - this.#writeBlockedSince;
  }

  /**
   * Starts the inbox check of a PINGREQ.
   *
   * @returns false if the last one was less than 0.9 keepalives ago
   */
  tryStartPingCheck(): boolean {
    const now = performance.now();
    if (now - this.#inboxCheckedAt < this.keepaliveTimeoutMs * 0.6) return false;
    this.#inboxCheckedAt = now;
    return true;
  }

  /** Schedules the inbox check for the latest time at which a row is written, instead of the time scheduled before. */
  recheckInboxAt(at: number): void {
    this.#recheckAt = at;
  }

  /** Schedules an inbox check after a delay, unless one is scheduled. */
  recheckInboxIn(delayMs: number): void {
    if (this.#recheckAt === 0) this.#recheckAt = performance.now() + delayMs;
  }

  /** Starts the scheduled inbox check if it is due and nothing is in flight. */
  tryStartRecheck(now: number): boolean {
    if (this.#recheckAt === 0 || now < this.#recheckAt || this.#inFlight.length > 0) return false;
    this.#recheckAt = 0;
    return true;
  }

  /** Schedules a read of the inbox; no push is sent live until it is empty. */
  requestSync(): void {
    this.#state = 'syncing';
    this.#hasUnreadRows = true;
    this.#resume();
  }

  /**
   * Marks the inbox as being read.
   *
   * @returns false if it is being read already
   */
  tryStartReplay(): boolean {
    if (this.#isReplaying) return false;
    this.#isReplaying = true;
    return true;
  }

  endReplay(): void {
    this.#isReplaying = false;
  }

  /** Starts a read: rows that are written from now on count as unread. */
  startRead(): void {
    this.#hasUnreadRows = false;
  }

  /** Goes live after a read that found no new row, once no row is awaited, unless a row was written since the read. */
  completeSync(): void {
    if (!this.#hasUnreadRows && this.isOpen()) this.#state = 'live';
  }

  /** Keeps the connection from going live until the row of a push was read, or should have been written. */
  awaitRow(push: string, writtenBy: number): void {
    this.#awaitedRows ??= new Map();
    this.#awaitedRows.set(push, writtenBy);
  }

  /** Ends the wait for rows that were read. */
  dropAwaitedRows(rows: readonly { push: string }[]): void {
    for (const { push } of rows) this.#awaitedRows?.delete(push);
  }

  /** Counts awaited rows as written, and unread, once their time has passed: their notices may be lost. */
  expireAwaitedRows(): void {
    const now = performance.now();
    for (const [push, writtenBy] of this.#awaitedRows ?? []) {
      if (now < writtenBy) continue;
      this.#awaitedRows?.delete(push);
      this.#hasUnreadRows = true;
    }
    this.#resume();
  }

  /** Checks whether rows are still to be written before the next read. */
  isAwaitingRows(): boolean {
    return this.isOpen() && !this.#hasUnreadRows && (this.#awaitedRows?.size ?? 0) > 0;
  }

  /** Frees the memory of acknowledged pushes some time after the last; called about once a second. */
  forgetOld(now: number): void {
    this.#acknowledged?.trim(now);
  }

  receiptStarted(): void {
    this.#pendingReceiptCount += 1;
  }

  receiptFinished(): void {
    this.#pendingReceiptCount -= 1;
    this.#resume();
  }

  hasPendingReceipts(): boolean {
    return this.#pendingReceiptCount > 0;
  }

  /** Waits for a condition that changes with PUBACKs, recorded receipts, unread rows and the close; one caller at a time. */
  async waitUntil(isDone: () => boolean): Promise<void> {
    while (this.isOpen() && !isDone()) {
      await new Promise<void>((resolve) => {
        this.#resumeWaiter = resolve;
      });
    }
  }

  #resume(): void {
    this.#resumeWaiter?.();
  }

  #rememberNewest(collapse: string, push: string): void {
    this.#newestByCollapseKey ??= new Map();
    this.#newestByCollapseKey.delete(collapse);
    this.#newestByCollapseKey.set(collapse, push);
    if (this.#newestByCollapseKey.size <= MAX_REMEMBERED_COLLAPSE_KEYS) return;
    for (const oldest of this.#newestByCollapseKey.keys())
      return void this.#newestByCollapseKey.delete(oldest);
  }
}
