# Install rules and the package files of find_package(tilewright).
