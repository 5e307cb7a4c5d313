import { BSON } from 'mongodb';
import type { DeviceDocument } from './documents.ts';

/** Time at which a device was last seen, and whether its app or its browser's subscription is gone. */
export interface LastSeen {
  token: string;
  /** Milliseconds since 1970. */
  at: number;
  uninstalled: boolean;
  unsubscribed: boolean;
}

/** Fields of a device that are read for it, as a projection. */
export const LAST_SEEN_FIELDS = { lastActiveAt: 1, uninstalled: 1, unsubscribed: 1 } as const;

type LastSeenFields = Pick<DeviceDocument, '_id' | keyof typeof LAST_SEEN_FIELDS>;

/** BSON types of these fields (https://bsonspec.org). */
const STRING = 0x02;
const BOOLEAN = 0x08;
const DATE = 0x09;
/** Bytes before a document's first field: its length. */
const HEADER_BYTES = 4;

/**
 * Reads a device of {@link LAST_SEEN_FIELDS} from its BSON. A request reads up to 1,000: the driver takes several times as
 * long for them and leaves work to the garbage collector. A document of another form goes to the driver.
 */
export function parseLastSeen(bytes: Buffer): LastSeen {
  const seen: LastSeen = { token: '', at: 0, uninstalled: false, unsubscribed: false };
  let offset = HEADER_BYTES;
  for (let type = bytes[offset]; type !== undefined && type !== 0; type = bytes[offset]) {
    const nameEnd = bytes.indexOf(0, offset + 1);
    const name = bytes.toString('latin1', offset + 1, nameEnd);
    offset = nameEnd + 1;
    if (type === BOOLEAN && (name === 'uninstalled' || name === 'unsubscribed')) {
      seen[name] = bytes[offset] === 1;
      offset += 1;
    } else if (type === DATE && name === 'lastActiveAt') {
      seen.at = bytes.readUInt32LE(offset) + bytes.readInt32LE(offset + 4) * 2 ** 32;
      offset += 8;
    } else if (type === STRING && name === '_id') {
      // The length counts the zero behind the text.
      const end = offset + 4 + bytes.readInt32LE(offset);
      seen.token = bytes.toString('utf8', offset + 4, end - 1);
      offset = end;
    } else {
      return fromDocument(BSON.deserialize(bytes) as LastSeenFields);
    }
  }
  return seen;
}

function fromDocument({ _id, lastActiveAt, ...flags }: LastSeenFields): LastSeen {
  const { uninstalled = false, unsubscribed = false } = flags;
  return { token: _id, at: lastActiveAt.getTime(), uninstalled, unsubscribed };
}
