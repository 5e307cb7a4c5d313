/** Identifies a delivery for its receipt. */
export interface DeliveryRef {
  push: string;
  work: string;
  position: number;
  /** Id of the delivery's inbox row, whether or not the row exists. */
  rowId: string;
  /** The receipt is reported to webhooks. */
  notify?: true;
}
