import type { PushDocument } from '@carillon/store/documents';
import type { Db } from 'mongodb';

/** Maximum bytes of a payload that is searched for a title: some apps may send a megabyte. */
const MAX_PAYLOAD_BYTES = 16_384;
/** Maximum characters of a title. */
const MAX_CHARACTERS = 80;

interface Texts {
  _id: string;
  data: string;
  options?: Pick<NonNullable<PushDocument['options']>, 'notification'>;
}

/** Reads what distinguishes pushes in a list from their payloads. */
export function createPushTitles(db: Db) {
  const pushes = db.collection<PushDocument>('pushes');
  return {
    /**
     * Reads the titles of pushes by id, at most 80 characters each: the first text of those that devices show. A push
     * without one is left out.
     */
    async read(ids: readonly string[]): Promise<Map<string, string>> {
      const found = await pushes
        .find<Texts>({ _id: { $in: [...ids] } }, { projection: TEXTS, batchSize: ids.length + 1 })
        .toArray();
      return new Map(found.flatMap((one) => findTitle(one).map((title) => [one._id, title])));
    },
  };
}

const TEXTS = {
  data: { $cond: [{ $lte: [{ $strLenBytes: '$data' }, MAX_PAYLOAD_BYTES] }, '$data', '{}'] },
  'options.notification.title': 1,
  'options.notification.body': 1,
} as const;

/** Returns the title of a push, or nothing. */
function findTitle({ data, options }: Texts): string[] {
  const { title, message } = (JSON.parse(data) ?? {}) as Record<string, unknown>;
  const { notification = {} } = options ?? {};
  const texts = [notification.title, title, notification.body, message];
  const shown = texts.find((text) => typeof text === 'string' && text.trim() !== '');
  return typeof shown === 'string' ? [shorten(shown.trim())] : [];
}

function shorten(text: string): string {
  // Characters of two units are not divided.
  const characters = [...text.slice(0, 2 * (MAX_CHARACTERS + 1))];
  if (characters.length <= MAX_CHARACTERS) return text;
  return `${characters.slice(0, MAX_CHARACTERS - 1).join('')}…`;
}
