import { setTimeout as sleep } from 'node:timers/promises';
import { BLOCK_MS, type Redis } from './redis.ts';
import { type Answer, type Reply, readReplyEntry } from './replies.ts';

const RETRY_MS = 200;
const ENTRIES_PER_READ = 500;

/** Reads a worker's reply stream from its beginning until stopped; a failing Redis only delays. */
export function followReplies(
  reader: Redis,
  stream: string,
  onReply: (reply: Reply) => void,
): () => void {
  let stopped = false;
  let last = '0-0';

  async function follow(): Promise<void> {
    while (!stopped) {
      try {
        const streams = await reader.xread(
          'COUNT',
          ENTRIES_PER_READ,
          'BLOCK',
          BLOCK_MS,
          'STREAMS',
          stream,
          last,
        );
        for (const [id, fields] of streams?.[0]?.[1] ?? []) {
          last = id;
          for (const reply of readReplyEntry(fields)) onReply(reply);
        }
      } catch {
        if (!stopped) await sleep(RETRY_MS);
      }
    }
  }

  void follow();
  return () => {
    stopped = true;
  };
}

/** All answers of one claim that a stream still holds; a receipt outweighs whatever else was said. */
export async function readAllReplies(
  redis: Redis,
  stream: string,
  claim: string,
): Promise<Map<number, Answer>> {
  const answers = new Map<number, Answer>();
  for (const [, fields] of await redis.xrange(stream, '-', '+')) {
    for (const reply of readReplyEntry(fields)) {
      if (reply.claim !== claim) continue;
      for (const position of reply.positions) {
        if (answers.get(position) !== 'acknowledged') answers.set(position, reply.answer);
      }
    }
  }
  return answers;
}
