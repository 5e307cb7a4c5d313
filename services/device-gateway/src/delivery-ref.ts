/** Identifies a delivery for its receipt. */
export interface DeliveryRef {
  push: string;
  work: string;
  position: number;
  /** Id of the delivery's inbox row, whether or not the row exists. */
  rowId: string;
  /** Webhooks are told of the receipt. */
  notify?: true;
}
