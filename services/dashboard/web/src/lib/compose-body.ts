import { compactJson, joinFields } from './json-text.ts';

/** Fields of a push that are merged over what its provider gets. They are stored as JSON texts. */
export const PROVIDER_FIELDS = ['apns', 'fcm', 'web_push'] as const;
export type ProviderField = (typeof PROVIDER_FIELDS)[number];

/** The composer's form, as its inputs hold it. Fields of providers are JSON texts, or empty. */
export interface ComposeForm extends Record<ProviderField, string> {
  /** Device tokens and topics, separated by white space or commas. */
  to: string;
  data: string;
  title: string;
  body: string;
  collapseKey: string;
  /** Seconds; empty for the default. */
  timeToLive: string;
  /** Text of an input of type datetime-local; empty for now. */
  schedule: string;
  /** `high` or `normal`; empty for the default. */
  priority: string;
}

export const EMPTY_FORM: ComposeForm = {
  to: '',
  data: '{\n  "message": "Hello"\n}',
  title: '',
  body: '',
  collapseKey: '',
  timeToLive: '',
  schedule: '',
  priority: '',
  apns: '',
  fcm: '',
  web_push: '',
};

/** The parameters of POST /push that the inputs are for. */
const PARAMETERS: Readonly<Record<keyof ComposeForm, string>> = {
  to: 'to',
  data: 'data',
  title: 'notification.title',
  body: 'notification.body',
  collapseKey: 'collapse_key',
  timeToLive: 'time_to_live',
  schedule: 'schedule',
  priority: 'priority',
  apns: 'apns',
  fcm: 'fcm',
  web_push: 'web_push',
};
const INPUTS = Object.keys(PARAMETERS) as (keyof ComposeForm)[];

/** Finds the input for a parameter that the API names, such as `apns.headers.apns-topic`. */
export function findInput(parameter: string): keyof ComposeForm | undefined {
  return INPUTS.find((input) => `${parameter}.`.startsWith(`${PARAMETERS[input]}.`));
}

/** A sentence for each wrong field. */
export type ComposeErrors = Partial<Record<keyof ComposeForm, string>>;

/** A push from the form: the request's body, or its errors. */
export type ComposeResult = { ok: true; body: string } | { ok: false; errors: ComposeErrors };

const TOPIC = /^\/topics\/[a-zA-Z0-9\-_.]{1,100}$/;
const TOKEN = /^[0-9A-Za-z_-]{1,64}$/;
const MAX_COLLAPSE_KEY_CHARACTERS = 32;
const MAX_TIME_TO_LIVE = 365 * 86_400;

/** Splits the recipients of the form. */
export function readRecipients(text: string): string[] {
  return [...new Set(text.split(/[\s,]+/).filter((item) => item !== ''))];
}

/** Finds the first recipient that is neither a device token nor a topic. */
export function findWrongRecipient(recipients: readonly string[]): string | undefined {
  return recipients.find((item) => !TOPIC.test(item) && !TOKEN.test(item));
}

/** Makes the JSON body of POST /push. The payload's text is kept as it was typed: large numbers stay exact. */
export function composeBody(form: ComposeForm, nowMs: number): ComposeResult {
  const errors = findErrors(form, nowMs);
  if (Object.keys(errors).length > 0) return { ok: false, errors };
  const recipients = readRecipients(form.to);
  const notification = {
    ...(form.title !== '' && { title: form.title }),
    ...(form.body !== '' && { body: form.body }),
  };
  const fields: [string, string][] = [
    ['to', JSON.stringify(recipients.length === 1 ? recipients[0] : recipients)],
    ['data', compactJson(form.data)],
  ];
  if (Object.keys(notification).length > 0) {
    fields.push(['notification', JSON.stringify(notification)]);
  }
  if (form.collapseKey !== '') fields.push(['collapse_key', JSON.stringify(form.collapseKey)]);
  if (form.timeToLive !== '') fields.push(['time_to_live', String(Number(form.timeToLive))]);
  if (form.schedule !== '') {
    fields.push(['schedule', String(Math.floor(Date.parse(form.schedule) / 1_000))]);
  }
  if (form.priority !== '') fields.push(['priority', JSON.stringify(form.priority)]);
  for (const name of PROVIDER_FIELDS) {
    if (form[name].trim() !== '') fields.push([name, compactJson(form[name])]);
  }
  return { ok: true, body: joinFields(fields) };
}

function findErrors(form: ComposeForm, nowMs: number) {
  const errors: ComposeErrors = {};
  const recipients = readRecipients(form.to);
  const wrong = findWrongRecipient(recipients);
  if (recipients.length === 0) errors.to = 'Give a device token or a topic such as /topics/news.';
  else if (wrong !== undefined) errors.to = `“${wrong}” is neither a device token nor a topic.`;
  for (const name of ['data', ...PROVIDER_FIELDS] as const) {
    const isAbsent = name !== 'data' && form[name].trim() === '';
    const problem = isAbsent ? undefined : findJsonProblem(form[name]);
    if (problem !== undefined) errors[name] = problem;
  }
  if (form.collapseKey.length > MAX_COLLAPSE_KEY_CHARACTERS) {
    errors.collapseKey = `A collapse key has at most ${MAX_COLLAPSE_KEY_CHARACTERS} characters.`;
  }
  const seconds = Number(form.timeToLive);
  if (
    form.timeToLive !== '' &&
    !(Number.isInteger(seconds) && seconds >= 0 && seconds <= MAX_TIME_TO_LIVE)
  ) {
    errors.timeToLive = 'Give seconds from 0 to 31536000 (one year).';
  }
  if (form.schedule !== '' && !(Date.parse(form.schedule) > nowMs)) {
    errors.schedule = 'The time must be in the future.';
  }
  return errors;
}

function findJsonProblem(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject ? undefined : 'It must be a JSON object: { … }.';
  } catch (error) {
    return `It is not JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/** Writes the options of a push, in which the fields of providers are JSON texts, as one JSON text. */
export function describeOptions(options: object): string {
  const isText = (name: string) => (PROVIDER_FIELDS as readonly string[]).includes(name);
  const fields = Object.entries(options).map(
    ([name, value]) => [name, isText(name) ? String(value) : JSON.stringify(value)] as const,
  );
  return joinFields(fields);
}
