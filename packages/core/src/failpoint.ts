/** The failpoints: steps of the delivery of a push at which a test may end, stop or fail a process. */
export const FAILPOINTS = {
  'address-released':
    'the device that had a provider address is a former one, or deleted, and the next one is not written; the text is its token',
  'topics-added':
    'the topics of a former device are those of its successor too; the text is the token of the former device',
  'rows-offered':
    'the fallback batches of a former device are inserted, and have no job; the text is its token',
  accept: 'before a push is inserted',
  'accept-batches': 'a push in state `accepting` is inserted, its batches are not',
  accepted: 'a push is committed; it has no job, and its request no response',
  opened: 'scheduled pushes that are due are open and have no job',
  page: 'the range of a page is saved, its batches are not inserted',
  'page-inserted': 'the batches of a page are inserted and have no job',
  release: 'batches are ready and have no job',
  claim: 'a batch is claimed',
  deliver:
    'before a batch, or a recipient of a suspected one, is delivered; the text is the payload',
  dispatch: 'before deliveries are dispatched to gateways; the text is a device token',
  dispatched: 'the gateways have replied, and nothing is recorded; the text is a device token',
  send: 'before a request to a provider; the text is a device token',
  sent: 'a provider has responded, and nothing is recorded; the text is a device token and the response',
  rows: 'before inbox rows are written; the text is a device token',
  'rows-written':
    'inbox rows are written, and the batch is not settled; the text is a device token',
  publish:
    'a live push is written to its connection, and has no PUBACK; the text is a device token',
  replay:
    'a push of an inbox is written to its connection, and has no PUBACK; the text is a device token',
  save: 'before outcomes are saved',
  saved: 'outcomes are saved',
  fallback: 'before the batch of a fallback is inserted',
  'fallback-recorded':
    'the answers of a fallback are in the batch that it is for, and its rows are not removed',
  'fallback-inserted':
    'the batch of a fallback is inserted, and the batch before it is not settled',
  settle: 'before a batch is settled',
  settled: 'a batch is settled; obsolete rows are still there',
  receipt: 'before a late receipt is recorded',
  'receipt-recorded': 'a late receipt is recorded in its batch; the row is still there',
  completion: 'a push has expired or was deleted, and its batches are closed',
  'completion-counted': 'the counts of such a push are written; its rows are still there',
  purge: 'before a push is removed after its retention',
  'purge-rows': 'the rows of pushes are removed; batches and pushes are still there',
  pruned: 'idle devices are deleted, and still have their subscriptions; the text is the app',
  'webhook-send': 'before a request to a webhook; the text is its id',
  'webhook-sent':
    'the receiver of a webhook has responded, and nothing is recorded; the text is its id',
  'webhook-recorded':
    'the events accepted by the receiver are recorded in its reports, and not in the webhook; the text is its id',
} as const;
export type Failpoint = keyof typeof FAILPOINTS;

/** Acts on a failpoint that was reached; may throw, and may not return. */
type FailpointHandler = (name: Failpoint, text: string) => void;

let handler: FailpointHandler | undefined;

/** Sets the handler of failpoints; without one they have no effect. */
export function setFailpointHandler(newHandler: FailpointHandler | undefined): void {
  handler = newHandler;
}

/**
 * Marks a failpoint. Costs one comparison while no test has set a handler.
 *
 * @param text a test may select an occurrence by it, see {@link FAILPOINTS}
 */
export function failpoint(name: Failpoint, text = ''): void {
  if (handler !== undefined) handler(name, text);
}

/** Marks a failpoint for each of some device tokens; they are listed only while a handler is set. */
export function failpointForEach(name: Failpoint, listTokens: () => Iterable<string>): void {
  if (handler === undefined) return;
  for (const token of listTokens()) handler(name, token);
}
