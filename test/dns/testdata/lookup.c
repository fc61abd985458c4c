// lookup prints the first IPv4 address that a program gets for a name. It is compiled with musl, which ships no getent.
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>

int main(int argc, char **argv) {
	struct addrinfo *found, hints = {.ai_socktype = SOCK_STREAM};
	char text[INET_ADDRSTRLEN];
	if (argc != 2) {
		fprintf(stderr, "usage: lookup NAME\n");
		return 2;
	}
	int error = getaddrinfo(argv[1], NULL, &hints, &found);
	if (error != 0) {
		fprintf(stderr, "%s\n", gai_strerror(error));
		return 1;
	}
	for (; found != NULL; found = found->ai_next) {
		if (found->ai_family == AF_INET) {
			struct sockaddr_in *at = (struct sockaddr_in *)found->ai_addr;
			fputs(inet_ntop(AF_INET, &at->sin_addr, text, sizeof text), stdout);
			return 0;
		}
	}
	fprintf(stderr, "no IPv4 address\n");
	return 1;
}
