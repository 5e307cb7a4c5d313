import { ERASED_TOKEN, hasBit, splitTokens } from '@carillon/core/batch';
import { channelFor, isTracked, PLATFORMS } from '@carillon/core/channels';
import { type Collection, type Db, type Filter, MongoServerError } from 'mongodb';
import type { Clock } from './clock.ts';
import type { Batch, BatchDocument, InboxDocument, PushDocument } from './documents.ts';
import { DUE_PUSHES_INDEX, UNCLOSED_BATCHES_INDEX } from './migrate.ts';

const TRACKED_CHANNELS = [...new Set(PLATFORMS.filter(isTracked).map(channelFor))];

/** Longer than any lease or retry delay of these channels; batches that are due later are scheduled. */
const LOOKAHEAD_MS = 30_000;
/** The most pushes whose open batches are searched for a device. */
const MAX_PUSHES = 1_000;
/** A search of a large backlog ends after this time, and no other begins for a while. */
const SEARCH_TIMEOUT_MS = 1_000;
const SEARCH_PAUSE_MS = 5_000;
const MAX_TIME_EXPIRED = 50;

/** Finds the devices that haven't received a push yet, and the pushes that a device hasn't. */
export function createPending(db: Db, clock: Clock) {
  const batches = db.collection<BatchDocument>('batches');
  const inbox = db.collection<InboxDocument>('inbox');
  const pushes = db.collection<PushDocument>('pushes');
  let pausedUntil = 0;

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

    /**
     * Finds an app's pushes, due or not, that are pending for a device in an open batch. They may have no inbox row
     * yet; the caller reads the inbox afterwards. Returns none while there are too many batches to search.
     */
    async findUnclosedPushes(app: string, token: string): Promise<string[]> {
      if (performance.now() < pausedUntil) return [];
      try {
        return await findUnclosed({ pushes, batches }, { app, token, nowMs: clock.now() });
      } catch (error) {
        if (!(error instanceof MongoServerError) || error.code !== MAX_TIME_EXPIRED) throw error;
        pausedUntil = performance.now() + SEARCH_PAUSE_MS;
        return [];
      }
    },
  };
}

/** Returns whether a recipient of an open batch has acknowledged or its device was deleted. */
function hasEnded({ got = {}, gone = {} }: Pick<Batch, 'got' | 'gone'>, position: number): boolean {
  return hasBit(got, position) || hasBit(gone, position);
}

/** A batch that contains the token; of one embedded in a push, `_id` is the push's id. */
interface TokenMatch {
  _id: string;
  /** The push of a batch with a document of its own. */
  push?: string;
  position: number;
  got?: NonNullable<Batch['got']>;
  gone?: NonNullable<Batch['gone']>;
}

/**
 * Searches the batches embedded in pushes, and at the same time those of their own. A push never changes from one form
 * to the other. A batch that is released during the scan moves ahead of it: the index has `waiting` before `ready`, and
 * its other fields never change.
 */
async function findUnclosed(
  { pushes, batches }: { pushes: Collection<PushDocument>; batches: Collection<BatchDocument> },
  { app, token, nowMs }: { app: string; token: string; nowMs: number },
): Promise<string[]> {
  const isForToken = {
    'work.channel': { $in: TRACKED_CHANNELS },
    'work.at': { $lte: new Date(nowMs + LOOKAHEAD_MS) },
    // A token contains no character that has a meaning in a regular expression.
    'work.tokens': { $regex: `(^| )${token}( |$)` },
  };
  const embedded = { app, state: { $in: ['open', 'scheduled'] as const }, 'work.state': 'ready' };
  const unclosed = {
    app,
    'work.state': { $in: ['waiting', 'ready'] as const },
    from: { $lte: token },
    to: { $gte: token },
  };
  const options = {
    projection: {
      push: 1,
      position: { $indexOfArray: [{ $split: ['$work.tokens', ' '] }, token] },
      got: '$work.got',
      gone: '$work.gone',
    },
    limit: MAX_PUSHES,
    batchSize: MAX_PUSHES + 1,
    maxTimeMS: SEARCH_TIMEOUT_MS,
  };
  const matches = await Promise.all([
    pushes
      .find<TokenMatch>({ ...embedded, ...isForToken } as Filter<PushDocument>, {
        ...options,
        hint: DUE_PUSHES_INDEX,
      })
      .toArray(),
    batches
      .find<TokenMatch>(
        { ...unclosed, ...isForToken },
        { ...options, hint: UNCLOSED_BATCHES_INDEX, sort: { 'work.state': -1 } },
      )
      .toArray(),
  ]);
  const unreceived = matches.flat().filter((match) => !hasEnded(match, match.position));
  return [...new Set(unreceived.map(({ _id, push = _id }) => push))];
}
