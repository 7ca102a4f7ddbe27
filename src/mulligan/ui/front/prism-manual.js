// Imported before Prism: it must not look for code in the document by itself.
window.Prism = { manual: true, disableWorkerMessageHandler: true };
