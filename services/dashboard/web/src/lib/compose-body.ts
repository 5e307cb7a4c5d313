/** The composer's form, as its inputs hold it. */
export interface ComposeForm {
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
}

export const EMPTY_FORM: ComposeForm = {
  to: '',
  data: '{\n  "message": "Hello"\n}',
  title: '',
  body: '',
  collapseKey: '',
  timeToLive: '',
  schedule: '',
};

/** A push from the form: the request's body, or for each wrong field a sentence. */
export type ComposeResult =
  | { ok: true; body: string }
  | { ok: false; errors: Partial<Record<keyof ComposeForm, string>> };

const TOPIC = /^\/topics\/[a-zA-Z0-9\-_.]{1,100}$/;
const TOKEN = /^[0-9A-Za-z_-]{1,64}$/;
const MAX_COLLAPSE_KEY_CHARACTERS = 32;
const MAX_TIME_TO_LIVE = 365 * 86_400;

/** Splits the recipients of the form. */
function readRecipients(text: string): string[] {
  return [...new Set(text.split(/[\s,]+/).filter((item) => item !== ''))];
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
    ['data', compact(form.data)],
  ];
  if (Object.keys(notification).length > 0) {
    fields.push(['notification', JSON.stringify(notification)]);
  }
  if (form.collapseKey !== '') fields.push(['collapse_key', JSON.stringify(form.collapseKey)]);
  if (form.timeToLive !== '') fields.push(['time_to_live', String(Number(form.timeToLive))]);
  if (form.schedule !== '') {
    fields.push(['schedule', String(Math.floor(Date.parse(form.schedule) / 1_000))]);
  }
  return {
    ok: true,
    body: `{${fields.map(([name, json]) => `${JSON.stringify(name)}:${json}`).join(',')}}`,
  };
}

function findErrors(form: ComposeForm, nowMs: number) {
  const errors: Partial<Record<keyof ComposeForm, string>> = {};
  const recipients = readRecipients(form.to);
  const wrong = recipients.find((item) => !TOPIC.test(item) && !TOKEN.test(item));
  if (recipients.length === 0) errors.to = 'Give a device token or a topic such as /topics/news.';
  else if (wrong !== undefined) errors.to = `“${wrong}” is neither a device token nor a topic.`;
  const problem = findJsonProblem(form.data);
  if (problem !== undefined) errors.data = problem;
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
    return isObject ? undefined : 'The payload must be a JSON object: { … }.';
  } catch (error) {
    return `The payload is not JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/** Removes the white space between a JSON text's tokens, and changes nothing else. */
export function compact(json: string): string {
  return json.replaceAll(/("(?:[^"\\]|\\.)*")|\s+/g, (_, text: string | undefined) => text ?? '');
}
