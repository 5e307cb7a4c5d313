/**
 * Copies a text. On plain http the browser has no clipboard API, so a selected text field is copied instead.
 *
 * @returns false when the browser refuses both
 */
export async function copyText(text: string): Promise<boolean> {
  if (window.isSecureContext && navigator.clipboard !== undefined) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // The permission is refused, as in a frame: the other way needs none.
    }
  }
  return copyBySelection(text);
}

function copyBySelection(text: string): boolean {
  const field = document.createElement('textarea');
  field.value = text;
  field.readOnly = true;
  field.style.position = 'fixed';
  field.style.opacity = '0';
  const focused = document.activeElement;
  // Beside the focused element, because a dialog takes the focus back from what is outside it.
  const parent = focused?.closest('[role="dialog"]') ?? document.body;
  parent.append(field);
  field.select();
  try {
    return document.execCommand('copy');
  } catch {
    return false;
  } finally {
    field.remove();
    if (focused instanceof HTMLElement) focused.focus();
  }
}
