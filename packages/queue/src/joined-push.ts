import { z } from 'zod';
import { isIdOfJob } from './jobs.ts';

const id = z.string().refine(isIdOfJob);
/** Milliseconds since 1970, by MongoDB's clock. */
const time = z.number().int().nonnegative();

/**
 * The contents of a push to one device, with which a worker delivers it without reading it. The push was inserted with a claim,
 * which the worker holds that takes it from the list of the open jobs.
 */
const contentsSchema = z.object({
  claim: id,
  app: id,
  token: id,
  acceptedAt: time,
  expiresAt: time,
  sendUntil: time,
  data: z.string(),
  options: z.record(z.string(), z.unknown()).optional(),
  collapse: z.string().optional(),
  trace: z.string().optional(),
  /** Events of the recipient are reported to webhooks. */
  notify: z.literal(true).optional(),
});
export type JoinedContents = z.infer<typeof contentsSchema>;

/** A push that joins an open job. */
export interface JoinedPush {
  id: string;
  /** Absent: the push was inserted without a claim. */
  contents?: JoinedContents | undefined;
}

/**
 * Encodes the entry of some pushes: a line for each, its id and after a space the JSON text of its contents, in which no
 * line ends.
 */
export function encodeEntry(pushes: readonly JoinedPush[]): string {
  return pushes
    .map((push) =>
      push.contents === undefined ? push.id : `${push.id} ${JSON.stringify(push.contents)}`,
    )
    .join('\n');
}

/**
 * Decodes an entry. What is no id is left out; a push with invalid contents is one without contents, which its worker finds
 * claimed until the claim ends.
 */
export function decodeEntry(entry: string): JoinedPush[] {
  return entry.split('\n').flatMap((line) => {
    const [pushId = ''] = line.split(' ', 1);
    if (!isIdOfJob(pushId)) return [];
    const text = line.slice(pushId.length + 1);
    return [{ id: pushId, contents: text === '' ? undefined : decodeContents(text) }];
  });
}

function decodeContents(text: string): JoinedContents | undefined {
  try {
    return contentsSchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** Counts the pushes of an entry. */
export function countEntry(entry: string): number {
  return entry.split('\n').length;
}
