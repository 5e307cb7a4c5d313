/** An end that the reader can mend: the message is a sentence with the way out. */
export class Refusal extends Error {}
