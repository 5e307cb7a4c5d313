import fc from 'fast-check';
import type {
  Endpoint,
  EndpointList,
  EndpointParameter,
  JsonSchema,
} from '../support/api/endpoints.ts';

/** A generated request. `{{name}}` in its texts is replaced by an id or a key that is known when it is sent. */
export interface FuzzRequest {
  /** Key that it is sent with. */
  credential: 'caller' | 'other' | 'wrong' | 'none';
  method: string;
  /** Path and query as they are written to the wire, without the key. */
  target: string;
  headers: readonly (readonly [name: string, value: string])[];
  /** Bytes as latin1 text. */
  body: string | undefined;
}

/** Values by the name of a field or a parameter, so that many requests pass the checks. */
const KNOWN: Record<string, readonly string[]> = {
  token: ['{{device}}', '{{iphone}}', '{{browser}}', '{{victim.device}}'],
  tokens: ['{{device}}', '{{android}}', '{{victim.device}}', '{{mark}}'],
  device_token: ['{{device}}', '{{spare}}', '{{victim.device}}'],
  registration_ids: ['{{device}}', '{{browser}}', '{{victim.device}}'],
  to: [
    '{{device}}',
    '/topics/{{topic}}',
    '{{iphone}}',
    '{{victim.device}}',
    '/topics/{{victim.topic}}',
  ],
  auth: ['{{auth}}', '{{mark}}'],
  push_id: ['{{push}}', '{{scheduled}}', '{{victim.push}}'],
  push: ['{{push}}', '{{victim.push}}'],
  webhook_id: ['{{webhook}}', '{{victim.webhook}}'],
  topic: ['{{topic}}', '{{victim.topic}}', '{{mark}}'],
  topics: ['{{topic}}', '{{mark}}', '*', '{{victim.topic}}'],
  // A client that knows an app's id may register devices: the third tenant is to stay as it is.
  appId: ['{{app}}'],
  app: ['{{mark}}.example', 'com.{{mark}}'],
  after: ['{{push}}', '{{device}}', '{{topic}}:{{device}}', '{{victim.push}}'],
  page: ['1', '2', '{{push}}'],
  url: ['https://{{mark}}.carillon.invalid/{{mark}}'],
  collapse_key: ['a', '{{mark}}'],
  endpoint: ['https://fcm.googleapis.com/fcm/send/{{mark}}'],
  fcmToken: ['fcm-{{mark}}'],
  title: ['{{mark}}'],
  'Idempotency-Key': ['{{mark}}', 'same'],
};

/** Texts that have broken a parser, a query or a page somewhere. */
const TEXTS = [
  ...['', '\0', '\u0000{{mark}}', '\ud800', '\ufeff', '\u202e\u0301', '😀'.repeat(40), 'ä{{mark}}'],
  ...['__proto__', 'constructor', 'hasOwnProperty', '$where', '$ne', 'a.b', '{{mark}}\r\nX-A: 1'],
  ...["' OR 1=1 --", '../../etc/passwd', '<script>alert(1)</script>', '%00', '{"$gt":""}'],
  ...['{{7*7}}'],
  ...['/topics/', '/topics/ä', '-1', '1e400', '0x10', '٣', '1'.repeat(400), 'f'.repeat(24)],
];

/** JSON texts of values that a field does not expect. */
const VALUES = [
  ...'null true false 0 -1 -0 1.5 1e400 -1e400 1e-400 1E+2 1e308 9007199254740993'.split(' '),
  ...'123456789012345678901234567890 [] {} [[]] [null] [{}] {"$ne":null} {"$gt":""}'.split(' '),
  ...'["{{mark}}"] {"a":"{{mark}}"} {"__proto__":{"a":"{{mark}}"}}'.split(' '),
];

const EXTRA_MEMBERS = [
  ...['"__proto__":{"to":"{{device}}","isAdmin":true}', '"__proto__":null', '"$where":"sleep(1)"'],
  ...['"constructor":{"prototype":{"a":1}}', '"":0', '"a.b":{"$set":1}', '"\\u0000":1'],
  ...[
    '"{{mark}}":1',
    '"toString":1',
    '"app":"{{victim.app}}"',
    '"account":"x"',
    '"_id":"{{mark}}"',
  ],
];

/** Chooses one of some arbitraries by their weights; shrinks towards the first. */
const weighted = <T>(...choices: [weight: number, arbitrary: fc.Arbitrary<T>][]): fc.Arbitrary<T> =>
  fc.oneof(
    { withCrossShrink: true },
    ...choices.map(([weight, arbitrary]) => ({ weight, arbitrary })),
  );

const wildText = fc.oneof(
  fc.constantFrom(...TEXTS),
  fc.string({ unit: 'grapheme', maxLength: 30 }),
  fc.string({ unit: 'binary', maxLength: 30 }),
  fc.constantFrom(40, 200, 4_200, 20_000, 140_000).map((length) => 'x'.repeat(length)),
);
const wildValue = fc.oneof(
  fc.constantFrom(...VALUES),
  wildText.map((text) => JSON.stringify(text)),
  fc.json({ maxDepth: 4 }),
  fc.tuple(fc.constantFrom(3, 2_040, 2_100, 60_000), fc.constantFrom('[]', '{}')).map(nest),
  fc.constantFrom(101, 1_001, 20_000).map((length) => `[${Array(length).fill('"x"').join()}]`),
);

function nest([depth, [open = '', close = '']]: [number, string]): string {
  const key = open === '{' ? '"a":' : '';
  return `${`${open}${key}`.repeat(depth)}1${close.repeat(depth)}`;
}

/** JSON texts that mostly fit a schema. @param name of the field, for the values that are known for it */
function fitting(list: EndpointList, schema: JsonSchema, name: string): fc.Arbitrary<string> {
  const { type, enum: values, anyOf, oneOf, ...rest } = list.resolve(schema);
  const alternatives = anyOf ?? oneOf;
  if (values !== undefined) return fc.constantFrom(...values).map((value) => JSON.stringify(value));
  if (rest.const !== undefined) return fc.constant(JSON.stringify(rest.const));
  if (alternatives !== undefined)
    return fc.oneof(...alternatives.map((one) => fitting(list, one, name)));
  if (Array.isArray(type))
    return fc.oneof(...type.map((one) => fitting(list, { ...rest, type: one }, name)));
  switch (type) {
    case 'string':
      return fittingText(rest, name).map((text) => JSON.stringify(text));
    case 'integer':
      return fc
        .integer({ min: rest.minimum ?? -10, max: rest.maximum ?? 4_000_000_000 })
        .map(String);
    case 'number':
      return fc.double({ min: rest.minimum ?? 0, max: rest.maximum ?? 1, noNaN: true }).map(String);
    case 'boolean':
      return fc.constantFrom('true', 'false');
    case 'null':
      return fc.constant('null');
    case 'array':
      return fc
        .array(fitting(list, rest.items ?? {}, name), {
          minLength: rest.minItems ?? 0,
          maxLength: 4,
        })
        .map((items) => `[${items.join()}]`);
    case 'object':
      return fittingObject(list, rest);
    default:
      return fc.oneof(fc.constant('"{{mark}}"'), fc.json({ maxDepth: 3 }));
  }
}

function fittingText({ pattern, maxLength = 40 }: JsonSchema, name: string): fc.Arbitrary<string> {
  const free =
    pattern === undefined
      ? fc.string({ unit: 'grapheme', maxLength: Math.min(maxLength, 40) })
      : fc.stringMatching(new RegExp(pattern));
  const known = KNOWN[name];
  if (known === undefined) return free;
  return weighted([8, fc.constantFrom(...known)], [1, free]);
}

function fittingObject(list: EndpointList, schema: JsonSchema): fc.Arbitrary<string> {
  const { properties, required = [] } = schema;
  // The payload: any object.
  if (properties === undefined)
    return fc.oneof(
      fc.constantFrom(
        '{"mark":"{{mark}}"}',
        '{"__proto__":{"a":"{{mark}}"},"":[1e400,{"$set":{}}]}',
      ),
      fc
        .dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 }))
        .map((value) => JSON.stringify(value)),
    );
  const members = Object.entries(properties).map(([key, field]) =>
    fittingMember(list, key, field, required.includes(key)),
  );
  const extra = weighted(
    [9, fc.constant<string[]>([])],
    [1, fc.constantFrom(...EXTRA_MEMBERS).map((member) => [member])],
  );
  return fc.tuple(...members, extra).map((lists) => `{${lists.flat().join()}}`);
}

/** A member as it should be, or absent, with a value of another kind, or twice. */
function fittingMember(
  list: EndpointList,
  key: string,
  schema: JsonSchema,
  isRequired: boolean,
): fc.Arbitrary<string[]> {
  const write = (value: string) => `${JSON.stringify(key)}:${value}`;
  const good = fitting(list, schema, key);
  const absent = fc.constant<string[]>([]);
  const present = good.map((value) => [write(value)]);
  const [first, second] = isRequired ? [present, absent] : [absent, present];
  return weighted(
    [24, first],
    [isRequired ? 1 : 8, second],
    [2, wildValue.map((value) => [write(value)])],
    [1, fc.tuple(good, wildValue).map((pair) => pair.map(write))],
  );
}

/** Bodies: mostly JSON that fits, else cut, in another encoding, with something before or behind it, or no object. */
function bodyOf(list: EndpointList, schema: JsonSchema): fc.Arbitrary<string> {
  const text = fitting(list, schema, '');
  const good = text.map(toLatin1);
  return weighted(
    [30, good],
    [2, fc.tuple(good, fc.nat({ max: 200 })).map(([all, cut]) => all.slice(0, -1 - cut))],
    [
      1,
      fc.tuple(good, fc.constantFrom('}', '{}', '\0', ',', '//')).map(([all, more]) => all + more),
    ],
    [1, good.map((all) => `\xef\xbb\xbf${all}`)],
    [1, text.map((all) => Buffer.from(all, 'utf16le').toString('latin1'))],
    [1, good.map((all) => all.replace(':', ':NaN,"x":'))],
    [1, good.map((all) => all.replace('"', "'"))],
    [2, wildValue.map(toLatin1)],
    [1, fc.string({ unit: 'binary', maxLength: 60 })],
    [1, fc.constantFrom('', ' ', '\xff\xfe', '{"a":"\xc3("}', '[', '['.repeat(200_000))],
  );
}

function toLatin1(text: string): string {
  return Buffer.from(text).toString('latin1');
}

/** Some of them fit into the 16 KB of a request's head. */
const MAX_PART_CHARACTERS = 2_000;

/** Parts of a path or a query as they are written to the wire. */
const WILD_PARTS = [
  ...'%00 %2e%2e%2f .. . %ff % %zz a%2Fb [$ne]=1 %ed%a0%80 %F0%9F%98%80 {{mark}} -1 1e9'.split(' '),
  ...'%7B%22$gt%22:%22%22%7D null undefined __proto__'.split(' '),
  'x'.repeat(2_000),
];

function partOf(list: EndpointList, { name, schema }: EndpointParameter): fc.Arbitrary<string> {
  const good = fitting(list, schema, name).map((text) => {
    const value = String(JSON.parse(text));
    return isPlaceholder(value) ? value : encodeURIComponent(value.toWellFormed());
  });
  return weighted(
    [12, good],
    [2, fc.constantFrom(...WILD_PARTS)],
    [
      1,
      wildText.map((text) => encodeURIComponent(text.toWellFormed()).slice(0, MAX_PART_CHARACTERS)),
    ],
  );
}

function isPlaceholder(value: string): boolean {
  return /^[\w.:{}/-]*$/.test(value) && value.includes('{{');
}

function pathOf(list: EndpointList, { path, parameters }: Endpoint): fc.Arbitrary<string> {
  const inPath = parameters.filter((parameter) => parameter.in === 'path');
  return fc
    .tuple(...inPath.map((parameter) => partOf(list, parameter)))
    .map((parts) =>
      parts.reduce((text, part, at) => text.replace(`{${inPath[at]?.name}}`, () => part), path),
    );
}

function queryOf(list: EndpointList, { parameters }: Endpoint): fc.Arbitrary<string[]> {
  const inQuery = parameters.filter((parameter) => parameter.in === 'query');
  const members = inQuery.map((parameter) => {
    const member = partOf(list, parameter).map((part) => [`${parameter.name}=${part}`]);
    const absent = fc.constant<string[]>([]);
    return weighted(
      [2, parameter.required ? member : absent],
      [1, parameter.required ? absent : member],
      [1, fc.tuple(member, member).map((pair) => pair.flat())],
      [1, member.map(([text = '']) => [text.replace('=', '[$ne]=')])],
    );
  });
  const extra = weighted(
    [12, fc.constant<string[]>([])],
    [
      1,
      fc
        .constantFrom('a=%00', '__proto__=1', 'a[__proto__][b]=1', '%', '&&=&', 'page[]=1')
        .map((text) => [text]),
    ],
  );
  return fc.tuple(...members, extra).map((lists) => lists.flat());
}

const TYPES = [
  ...['text/plain', 'application/json; charset=utf-16', 'application/x-www-form-urlencoded', 'x'],
  ...['multipart/form-data; boundary=x', 'APPLICATION/JSON', 'application/jsonx', ''],
];
/** Each a name and a value. */
const HEADERS = [
  ...['accept: text/csv', 'accept: */*;q=x', 'accept-encoding: br;q=9,*;q=-1', 'via: x'],
  ...['content-encoding: gzip', 'content-encoding: identity', 'range: bytes=0-1', 'upgrade: h2c'],
  ...['x-forwarded-for: 203.0.113.7, , x', 'forwarded: for="[::"', 'if-none-match: *'],
  ...['x-http-method-override: DELETE', 'expect: 100-continue', 'cookie: __proto__=1'],
  ...[
    'origin: null',
    'authorization: Basic eDp5',
    'authorization: Bearer ',
    'x-{{mark}}: \xff\xfe',
  ],
  ...['traceparent: 00-x', `traceparent: 00-${'f'.repeat(32)}-${'f'.repeat(16)}-01`],
  ...[`x-long: ${'x'.repeat(9_000)}`, `idempotency-key: ${'ä'.repeat(3)}`],
  `idempotency-key: ${'x'.repeat(300)}`,
].map((line): [string, string] => [line.split(': ', 1)[0] ?? '', line.replace(/^[^:]+: /, '')]);
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'HEAD', 'TRACE', 'PROPFIND'];

function headersOf(
  list: EndpointList,
  { parameters, body }: Endpoint,
): fc.Arbitrary<[string, string][]> {
  const inHeader = parameters.filter((parameter) => parameter.in === 'header');
  const own = inHeader.map(({ name, schema }) =>
    fc.option(
      fitting(list, schema, name).map((text): [string, string] => [name, String(JSON.parse(text))]),
    ),
  );
  const type = weighted([30, fc.constant('application/json')], [1, fc.constantFrom(...TYPES)]);
  const odd = weighted([6, fc.constant(null)], [1, fc.constantFrom(...HEADERS)]);
  return fc
    .tuple(fc.tuple(...own), body === undefined ? fc.constant('') : type, odd)
    .map(([headers, contentType, more]) => [
      ...headers.flatMap((header) => (header === null ? [] : [header])),
      ...(contentType === '' ? [] : [['content-type', contentType] as [string, string]]),
      ...(more === null ? [] : [more]),
    ]);
}

/** Random requests of an endpoint: valid shapes with mutations. They shrink towards a valid request. */
export function requestsOf(list: EndpointList, endpoint: Endpoint): fc.Arbitrary<FuzzRequest> {
  const body: fc.Arbitrary<string | undefined> =
    endpoint.body === undefined
      ? fc.oneof(
          { arbitrary: fc.constant(undefined), weight: 9 },
          { arbitrary: wildValue.map(toLatin1), weight: 1 },
        )
      : bodyOf(list, endpoint.body.schema);
  return fc
    .record({
      credential: fc.constantFrom('caller', 'caller', 'caller', 'other', 'none', 'wrong'),
      method: weighted([30, fc.constant(endpoint.method)], [1, fc.constantFrom(...METHODS)]),
      path: pathOf(list, endpoint),
      query: queryOf(list, endpoint),
      headers: headersOf(list, endpoint),
      body,
    })
    .map(({ path, query, ...rest }) => ({
      ...rest,
      target: query.length === 0 ? path : `${path}?${query.join('&')}`,
    }));
}
