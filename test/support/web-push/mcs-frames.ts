/** Stanzas of Google's Mobile Connection Server, as Chromium speaks it (mcs.proto in its sources). */
const VERSION = 41;
const LOGIN_RESPONSE = 3;
const DATA_MESSAGE = 8;

/** A field of a protobuf message: text, bytes, or a number. */
type Field = [number: number, value: string | Buffer | number];

/** The server's response to a login: its protocol version, and a stanza. */
export function encodeLoginResponse(): Buffer {
  const fields: Field[] = [
    [1, '1'],
    [5, 1],
  ];
  return Buffer.concat([Buffer.of(VERSION), encodeStanza(LOGIN_RESPONSE, fields)]);
}

/** Fields of the frame that announces a push. */
export interface DataMessage {
  id: string;
  /** As the registration named them. */
  sender: string;
  app: string;
  subtype: string;
  /** Counts the stanzas of a connection from 1, the login's response. */
  stream: number;
  body: Buffer;
}

/** A push in encoding aes128gcm. */
export function encodeDataMessage({ id, sender, app, subtype, stream, body }: DataMessage): Buffer {
  const fields: Field[] = [
    [2, id],
    [3, sender],
    [5, app],
    [7, encodeAppData('subtype', subtype)],
    [7, encodeAppData('content-encoding', 'aes128gcm')],
    [9, id],
    [10, stream],
    [21, body],
  ];
  return encodeStanza(DATA_MESSAGE, fields);
}

/** The response to a check-in: success, and the identity of the browser from now on. */
export function encodeCheckinResponse(androidId: bigint, securityToken: bigint): Buffer {
  const fixed = Buffer.alloc(18);
  fixed.writeUInt8((7 << 3) | 1, 0);
  fixed.writeBigUInt64LE(androidId, 1);
  fixed.writeUInt8((8 << 3) | 1, 9);
  fixed.writeBigUInt64LE(securityToken, 10);
  return Buffer.concat([encodeMessage([[1, 1]]), fixed]);
}

function encodeAppData(key: string, value: string): Buffer {
  return encodeMessage([
    [1, key],
    [2, value],
  ]);
}

function encodeStanza(tag: number, fields: readonly Field[]): Buffer {
  const body = encodeMessage(fields);
  return Buffer.concat([Buffer.of(tag), encodeVarint(body.length), body]);
}

function encodeMessage(fields: readonly Field[]): Buffer {
  return Buffer.concat(
    fields.flatMap(([number, value]) => {
      if (typeof value === 'number') return [encodeVarint(number << 3), encodeVarint(value)];
      const bytes = Buffer.from(value);
      return [encodeVarint((number << 3) | 2), encodeVarint(bytes.length), bytes];
    }),
  );
}

function encodeVarint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  while (rest > 127) {
    bytes.push((rest & 127) | 128);
    rest >>>= 7;
  }
  return Buffer.from([...bytes, rest]);
}
