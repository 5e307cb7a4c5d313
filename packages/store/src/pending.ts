import { hasBit, splitTokens } from '@carillon/core/batch';
import { channelFor, isTracked, PLATFORMS } from '@carillon/core/channels';
import { type Collection, type Db, type Document, MongoServerError } from 'mongodb';
import type { Clock } from './clock.ts';
import type { Batch, BatchDocument, InboxDocument, PushDocument } from './documents.ts';
import { BATCHES_OF_PUSH_INDEX, DUE_BATCHES_INDEX, DUE_PUSHES_INDEX } from './migrate.ts';

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
          if (!hasEnded(work, position)) add(token);
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

interface Tables {
  pushes: Collection<PushDocument>;
  batches: Collection<BatchDocument>;
}

/** A batch that contains the token. */
interface TokenMatch {
  push: string;
  position: number;
  got?: NonNullable<Batch['got']>;
  gone?: NonNullable<Batch['gone']>;
}

/** Searches waiting batches and those in a push before released ones, the order in which a batch changes its state. */
async function findUnclosed(
  { pushes, batches }: Tables,
  { app, token, nowMs }: { app: string; token: string; nowMs: number },
): Promise<string[]> {
  const deadline = performance.now() + SEARCH_TIMEOUT_MS;
  const remainingTime = () => ({
    maxTimeMS: Math.max(1, Math.round(deadline - performance.now())),
  });
  const dueSoon = { $lte: new Date(nowMs + LOOKAHEAD_MS) };
  const isForToken = {
    'work.channel': { $in: TRACKED_CHANNELS },
    // A token contains no character that has a meaning in a regular expression.
    'work.tokens': { $regex: `(^| )${token}( |$)` },
  };
  const inRange = { from: { $lte: token }, to: { $gte: token }, ...isForToken };
  const isOpenOrScheduled = { app, state: { $in: ['open', 'scheduled'] as const } };

  async function findWaitingBatches(): Promise<TokenMatch[]> {
    const fanningOut = await pushes
      .find(
        { ...isOpenOrScheduled, 'fan.done': false, 'fan.at': dueSoon },
        { projection: { _id: 1 }, hint: { 'fan.at': 1 }, ...remainingTime() },
      )
      .limit(MAX_PUSHES)
      .map(({ _id }) => _id)
      .toArray();
    if (fanningOut.length === 0) return [];
    const match = { push: { $in: fanningOut }, 'work.state': 'waiting', ...inRange };
    return batches
      .aggregate<TokenMatch>(buildTokenPipeline(match, '$push', token), {
        hint: BATCHES_OF_PUSH_INDEX,
        ...remainingTime(),
      })
      .toArray();
  }

  const embeddedFilter = {
    ...isOpenOrScheduled,
    'work.state': 'ready',
    'work.at': dueSoon,
    ...isForToken,
  };
  const earlierMatches = await Promise.all([
    pushes
      .aggregate<TokenMatch>(buildTokenPipeline(embeddedFilter, '$_id', token), {
        hint: DUE_PUSHES_INDEX,
        ...remainingTime(),
      })
      .toArray(),
    findWaitingBatches(),
  ]);
  const releasedFilter = { app, 'work.state': 'ready', 'work.at': dueSoon, ...inRange };
  const releasedMatches = await batches
    .aggregate<TokenMatch>(buildTokenPipeline(releasedFilter, '$push', token), {
      hint: DUE_BATCHES_INDEX,
      ...remainingTime(),
    })
    .toArray();
  const unreceived = [...earlierMatches.flat(), ...releasedMatches].filter(
    (tokenMatch) => !hasEnded(tokenMatch, tokenMatch.position),
  );
  return [...new Set(unreceived.map(({ push }) => push))];
}

function buildTokenPipeline(match: Document, push: string, token: string): Document[] {
  const position = { $indexOfArray: [{ $split: ['$work.tokens', ' '] }, token] };
  return [
    { $match: match },
    { $limit: MAX_PUSHES },
    { $project: { _id: 0, push, position, got: '$work.got', gone: '$work.gone' } },
  ];
}
