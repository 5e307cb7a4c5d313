import { Modal, type ModalProps } from '@mantine/core';
import { useEffect, useState } from 'react';
import '@mantine/core/styles/Overlay.css';
import '@mantine/core/styles/ModalBase.css';
import '@mantine/core/styles/Modal.css';

/** Shows the window of a dialog. It opens after it is mounted, so that it gives the focus back when it closes. */
export function DialogWindow({ opened, ...props }: ModalProps) {
  const [isShown, setIsShown] = useState(false);
  useEffect(() => setIsShown(opened), [opened]);
  return <Modal {...props} opened={isShown} closeButtonProps={{ 'aria-label': 'Close' }} />;
}
