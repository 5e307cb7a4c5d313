import { ERASED_TOKEN, hasBit, splitTokens } from '@carillon/core/batch';
import { channelFor, isTracked, PLATFORMS } from '@carillon/core/channels';
import { OUTCOMES } from '@carillon/core/outcomes';
import { toBytes } from '@carillon/store/bytes';
import type { Batch, BatchDocument, InboxDocument, PushDocument } from '@carillon/store/documents';
import type { Db } from 'mongodb';

/** Channels of the platforms whose devices acknowledge their pushes. */
export const TRACKED_CHANNELS = [...new Set(PLATFORMS.filter(isTracked).map(channelFor))];

/** Finds the devices that haven't received a push yet. */
export function createPending(db: Db) {
  const batches = db.collection<BatchDocument>('batches');
  const inbox = db.collection<InboxDocument>('inbox');

  /** Reads waiting before ready batches, the order in which a batch changes its state. */
  async function* iterateUnclosedBatches(push: PushDocument): AsyncGenerator<Batch> {
    if (push.work !== undefined) {
      if (push.work.state !== 'closed') yield push.work;
      return;
    }
    for (const state of ['waiting', 'ready'] as const) {
      const unclosed = batches.find({ push: push._id, 'work.state': state });
      for await (const { work } of unclosed) yield work;
    }
  }

  return {
    /**
     * Finds devices of tracked platforms for which a push is pending in an open batch or an inbox. Read in this order:
     * a worker writes the inbox rows before it closes the batch.
     */
    async findDevices(push: PushDocument, limit: number): Promise<string[]> {
      const pendingTokens = new Set<string>();
      const add = (token: string): void => {
        if (pendingTokens.size < limit) pendingTokens.add(token);
      };
      for await (const work of iterateUnclosedBatches(push)) {
        if (pendingTokens.size >= limit) break;
        if (!TRACKED_CHANNELS.includes(work.channel)) continue;
        for (const [position, token] of splitTokens(work.tokens).entries()) {
          if (token !== ERASED_TOKEN && !hasEnded(work, position)) add(token);
        }
      }
      if (pendingTokens.size >= limit) return [...pendingTokens];
      const rows = inbox.find({ push: push._id }, { projection: { _id: 1 } }).limit(limit);
      for await (const { _id } of rows) add(_id.slice(0, _id.indexOf(':')));
      return [...pendingTokens];
    },
  };
}

/** Checks whether a recipient of an open batch has an outcome, has acknowledged or its device was deleted. */
export function hasEnded(
  { outcomes, got = {}, gone = {} }: Pick<Batch, 'outcomes' | 'got' | 'gone'>,
  position: number,
): boolean {
  const code = toBytes(outcomes)[position] || OUTCOMES.pending;
  const isOpen = code === OUTCOMES.pending || code === OUTCOMES.inbox;
  return !isOpen || hasBit(got, position) || hasBit(gone, position);
}
